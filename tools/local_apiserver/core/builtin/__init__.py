"""The built-in resources: their types, and what each kind does on top of its type."""
