"""Programs of a real node, for tests."""
