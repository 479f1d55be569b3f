"""Discovery and OpenAPI documents: cached, prefetched, and watched for changed schemas."""
