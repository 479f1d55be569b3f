"""What the sidecars, GM and LC share; each package in it says at its head what it owns.

runtime       what any process needs first: flags, log, clock, metrics, HTTP endpoints
kubeapi       requests and watches to a Kubernetes API server
apimachinery  objects, list options, selectors, Status: pure
walstore      SQLite with one writer thread and group commit
top           `edge-sidecars top`: several components at a glance
sedna_api     the kinds and messages of Sedna that GM and LC share
"""
