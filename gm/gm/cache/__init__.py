"""The informers' caches of the Kubernetes API, and the indexes over them."""
