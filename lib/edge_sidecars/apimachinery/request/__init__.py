"""What a request of the API asks for: verb and resource, options, representation."""
