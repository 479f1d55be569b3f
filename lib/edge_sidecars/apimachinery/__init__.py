"""Kubernetes' API conventions: objects, list options, representations, Status. Pure.

Source of most rules: k8s.io/apimachinery and k8s.io/apiserver v0.36."""
