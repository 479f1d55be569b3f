"""What a node needs around the relay, done by commands that end: never imported by the relay.

plan          what `node install` changes, computed before anything is
installation  changes of files, all or none, that can be taken back
kubelet       how kubelet reaches the API server, and the same by way of the relay
units         the units of systemd
cni           networks whose pods keep their addresses; ipam_gc: when those end
snapshot      files that a reboot must find
authority     the node's own CA, and the certificate that the relay shows
doctor        what would fail at a reboot now, pure; pods: what they need; facts: what is looked at
kubelet_api   requests as kubelet sends them
"""
