"""The command line's words: every flag and its help.

Knows no meaning: values stay text here, and every default is None, so that an env twin can fill in
before the real default. An unknown flag is `BadInput` that names the nearest known one.
"""

from edge_sidecars.runtime.flags import Parser

# Sedna's, which its workers have in their LC_SERVER.
DEFAULT_BIND_PORT = 9100
# Where Sedna's DaemonSet mounts the node's /.
DEFAULT_ROOT = "/rootfs"
# Below the root.
DEFAULT_DATA_DIR = "var/lib/sedna"
DEFAULT_API = "http://127.0.0.1:10550"
DEFAULT_RELAY_STATUS = "http://127.0.0.1:10551"
PREFIX = "LC_"
# By flag: the variable by which Sedna's LC is told the same.
SEDNA_TWINS = {
    "gm_address": "GM_ADDRESS",
    "node": "NODENAME",
    "root": "ROOTFS_MOUNT_DIR",
    "bind_port": "BIND_PORT",
}

# (flag, its value, help), by group.
GROUPS: dict[str, list[tuple[str, str, str]]] = {
    "where objects come from": [
        ("mode", "stream|relay", "stream: from GM; relay: from the API, through the pod's relay"),
        ("gm-address", "HOST:PORT", "of GM's stream, or several with commas; Sedna: GM_ADDRESS"),
        ("server-ca", "FILE", "TLS to GM, which this CA vouches for; default: no TLS"),
        ("tls-cert", "FILE", "who this node is to GM; with --tls-key"),
        ("tls-key", "FILE", "of --tls-cert"),
        ("gm-token-file", "FILE", "or a token that GM has reviewed; needs --server-ca"),
        ("redial-cap", "8s", "the longest wait before GM, or the relay, is tried again"),
        ("api", "URL", f"the relay, in mode relay; default {DEFAULT_API}"),
        ("relay-status", "URL", f"the relay's own port; default {DEFAULT_RELAY_STATUS}"),
        ("namespace", "NS", "only objects of this one, in mode relay; default: of all"),
    ],
    "this node": [
        ("node", "NAME", "default: the host's name; Sedna: NODENAME"),
        ("root", "DIR", f"where the node's / is; default {DEFAULT_ROOT}; Sedna: ROOTFS_MOUNT_DIR"),
        ("data-dir", "DIR", f"default <root>/{DEFAULT_DATA_DIR}"),
        ("secrets-dir", "DIR", "Secrets that are mounted as <namespace>/<name>; default: none"),
        ("dataset-interval", "60s", "between two counts of one dataset"),
    ],
    "workers": [
        ("bind-port", "PORT", f"on 127.0.0.1; default {DEFAULT_BIND_PORT}; Sedna: BIND_PORT"),
        ("node-listen", "HOST:PORT", "also there, for workers without host network; with a token"),
        ("token-file", "FILE", "what clients of --node-listen must know; read again at a change"),
    ],
    "logging": [
        ("log-format", "text|json", "default text"),
        ("log-level", "debug|info|warning|error", "default info"),
    ],
}


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    it = Parser(
        prog="lc",
        allow_abbrev=False,
        description="Sedna's Local Controller: what Sedna does on one edge node.",
        epilog="Sub-commands: `lc run` (default), `lc status` (how it stands on this node). Every "
        "flag has an env twin, LC_<FLAG>.",
    )
    for title, options in GROUPS.items():
        group = it.add_argument_group(title)
        for name, value, text in options:
            group.add_argument(f"--{name}", metavar=value, help=text)
    return it
