"""Bodies of writes: JSON and patches, decoded into objects. Pure."""
