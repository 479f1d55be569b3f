"""The flags of LC and their values. Here only where it listens, which costs no import."""

# Sedna's, which its workers have in their LC_SERVER.
DEFAULT_BIND_PORT = 9100
PREFIX = "LC_"
# By flag: the variable of Sedna's LC for the same.
SEDNA_TWINS = {
    "gm_address": "GM_ADDRESS",
    "node": "NODENAME",
    "root": "ROOTFS_MOUNT_DIR",
    "bind_port": "BIND_PORT",
}
