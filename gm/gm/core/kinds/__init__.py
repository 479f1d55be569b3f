"""The rows of the table: one file for each kind."""
