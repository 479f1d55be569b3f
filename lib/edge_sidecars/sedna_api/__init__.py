"""What GM and LC share: the kinds, node labels, reports and the stream's messages."""
