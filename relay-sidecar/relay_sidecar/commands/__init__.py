"""The sub-commands beside `run`: kubeconfig, status."""
