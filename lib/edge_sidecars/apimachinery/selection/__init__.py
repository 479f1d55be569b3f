"""Label and field selectors: their grammar, what they select, which covers which. Pure."""
