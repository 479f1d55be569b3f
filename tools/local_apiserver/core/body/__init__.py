"""Bodies of writes: JSON, protobuf and patches, decoded into objects. Pure."""
