"""What `node install` changes on a node, and `node uninstall` takes back.

plan          what is changed, computed before anything is
installation  changes of files, all or none, that can be taken back
kubelet       how kubelet reaches the API server, and the same by way of the relay
units         the units of systemd
cni           networks whose pods keep their addresses
snapshot      files that a reboot must find
authority     the node's own CA, and the certificate that the relay shows
"""
