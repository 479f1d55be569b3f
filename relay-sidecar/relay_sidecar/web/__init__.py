"""What clients of the relay talk to: the Kubernetes API, and the relay's own endpoints."""
