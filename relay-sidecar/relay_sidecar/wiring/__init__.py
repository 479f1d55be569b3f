"""The relay put together: its parts and how each knows of the others."""
