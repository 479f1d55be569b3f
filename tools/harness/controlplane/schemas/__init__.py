"""Files made from kube-apiserver's own types."""
