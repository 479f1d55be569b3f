"""What was done, what the cloud showed, and the verdict on both."""
