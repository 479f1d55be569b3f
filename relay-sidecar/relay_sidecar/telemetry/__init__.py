"""The relay's status and metrics, and their export."""
