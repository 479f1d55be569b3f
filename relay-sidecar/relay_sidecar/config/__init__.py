"""The flags of the relay and their values. Here only where it listens, which costs no import."""

# The port of KubeEdge's Autonomic Kube-API Endpoint, so that its users find ours.
DEFAULT_LISTEN = "127.0.0.1:10550"
DEFAULT_STATUS_LISTEN = "127.0.0.1:10551"
PREFIX = "RELAY_"
