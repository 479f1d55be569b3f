"""kubectl, kustomize and JSON over HTTP, as tests use them."""
