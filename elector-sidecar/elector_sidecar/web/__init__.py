"""What is answered over HTTP, and on which sockets."""
