"""Label, field and shard selectors: their grammar, what they select, which covers which. Pure."""
