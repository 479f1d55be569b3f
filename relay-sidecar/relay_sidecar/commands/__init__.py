"""The sub-commands beside `run`: in-cluster, kubeconfig, node, status."""
