"""What `node install` changes on a node, and `node uninstall` takes back.

plan          what is changed, computed before anything is
inputs        what is given, read and checked before anything is changed
steps         the order on a node with systemd: tried first, all or nothing
trial         whether the relay serves what kubelet asks
attempt       an installation that is not whole yet, and how it is taken back
installation  the record of an installation, and its files
leftovers     what still needs the relay, or sticky-ipam, once both are taken back
kubelet       how kubelet reaches the API server, and the same by way of the relay
systemd/      the text of its units, and the services that run
cni           networks whose pods keep their addresses
snapshot      files that a reboot must find
authority     the node's own CA, and the certificate that the relay shows
"""
