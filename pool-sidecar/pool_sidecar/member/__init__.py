"""The member of a node: what it watches, asks and writes; `member` is its state."""
