"""What develops, tests, measures and releases the product; nothing of it is in an image."""
