"""What is answered over HTTP to kubelet, Prometheus, people and this pod's elector."""
