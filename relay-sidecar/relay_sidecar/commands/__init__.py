"""The sub-commands beside `run`: kubeconfig, rbac, status; those of nodes are in `relay_node`."""
