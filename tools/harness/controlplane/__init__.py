"""kube-apiserver and etcd, or the local API server: built, started, frozen, restarted."""
