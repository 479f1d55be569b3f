"""A stand-in for kubelet: it renews the Lease and reports the Node."""
