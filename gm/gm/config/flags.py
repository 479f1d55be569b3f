"""The command line's words: every flag and its help.

Knows no meaning: values stay text here, and every default is None, so that an env twin can fill
in before the real default. An unknown flag is `BadInput` that names the nearest known one.
"""

from edge_sidecars.runtime.flags import Parser

# relay-sidecar's --listen and --status-listen, elector-sidecar's --listen.
DEFAULT_API = "http://127.0.0.1:10550"
DEFAULT_RELAY_STATUS = "http://127.0.0.1:10551"
DEFAULT_ELECTOR = "http://127.0.0.1:4040"
DEFAULT_LISTEN = "127.0.0.1:9001"
# Sedna's port, so that its Service and its LCs' GM_ADDRESS need no change.
DEFAULT_STREAM_LISTEN = ":9000"
# What Sedna's GM tells its workers (localController.server, knowledgeBaseServer.server).
DEFAULT_LC_SERVER = "http://localhost:9100"
DEFAULT_KB_SERVER = "http://localhost:9020"
PREFIX = "GM_"
REPEATED = frozenset({"namespace"})

# (flag, its value, help), by group.
GROUPS: dict[str, list[tuple[str, str, str]]] = {
    "how GM and its LCs work together": [
        (
            "mode",
            "active-standby|active-active|relay",
            "LCs talk to the leader, to any GM, or to no GM but their relays; default "
            "active-standby",
        ),
        ("namespace", "NAME", "look after this one only; may be repeated; default all"),
        (
            "allow-kube-system",
            "true|false",
            "make workers for jobs in kube-system too; default false",
        ),
    ],
    "the sidecars of this pod": [
        ("api", "URL", f"the relay: the Kubernetes API; default {DEFAULT_API}"),
        (
            "relay-status",
            "URL|off",
            f"tells whether the link is up; default {DEFAULT_RELAY_STATUS}; off: always",
        ),
        ("elector", "URL", f"who leads; default {DEFAULT_ELECTOR}"),
    ],
    "where LCs come": [
        ("stream-listen", "HOST:PORT", f"gRPC; default {DEFAULT_STREAM_LISTEN}"),
        ("sedna-listen", "HOST:PORT", "websocket, for Sedna's own LCs; default off"),
        ("tls-cert", "FILE", "TLS on --stream-listen, with --tls-key"),
        ("tls-key", "FILE", "of --tls-cert"),
        ("client-ca", "FILE", "LCs must bring a certificate that it signed, with their node"),
        (
            "review-tokens",
            "true|false",
            "LCs must bring a token that the API server binds to their node; default false",
        ),
    ],
    "what workers are told": [
        ("lc-server", "URL", f"LC_SERVER; default {DEFAULT_LC_SERVER}"),
        ("kb-server", "URL", f"KB_SERVER; default {DEFAULT_KB_SERVER}"),
    ],
    "this process": [
        ("listen", "HOST:PORT", f"/livez, /readyz, /status, /metrics; default {DEFAULT_LISTEN}"),
        ("concurrency", "32", "so many objects are worked on at a time"),
        (
            "request-timeout",
            "5s",
            "hard limit of one API request; a write is begun only while the lead is proven for "
            "longer",
        ),
        ("log-format", "text|json", "default text"),
        ("log-level", "debug|info|warning|error", "default info"),
    ],
}


def parser() -> Parser:
    it = Parser(
        prog="gm",
        allow_abbrev=False,
        description="Sedna's Global Manager: turns datasets, models, jobs and services into pods "
        "and statuses, together with Local Controllers on the nodes.",
        epilog="Sub-command: `gm status` (who leads, nodes, backlog, jobs). Every flag has an env "
        f"twin, {PREFIX}<FLAG>; one that may be repeated takes several values with spaces between.",
    )
    for title, options in GROUPS.items():
        group = it.add_argument_group(title)
        for name, value, text in options:
            action = "append" if name in REPEATED else "store"
            group.add_argument(f"--{name}", metavar=value, help=text, action=action)
    return it
