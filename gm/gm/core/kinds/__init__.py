"""The rows of the table, one for each kind; kinds that share workers share a file."""
