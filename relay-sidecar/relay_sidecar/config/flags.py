"""The command line's words: every flag and its help.

Knows no meaning: values stay text here, and every default is None, so that an env twin can fill
in before the real default. An unknown flag is `BadInput` that names the nearest known one.
"""

from edge_sidecars.runtime.flags import Parser

# The port of KubeEdge's Autonomic Kube-API Endpoint, so that its users find ours.
DEFAULT_LISTEN = "127.0.0.1:10550"
DEFAULT_STATUS_LISTEN = "127.0.0.1:10551"
DEFAULT_DATA_DIR = "/var/lib/relay-sidecar"
# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "RELAY_"

# (flag, its value, help), by group.
GROUPS: dict[str, list[tuple[str, str, str]]] = {
    "where clients come": [
        ("listen", "HOST:PORT", f"the Kubernetes API; default {DEFAULT_LISTEN}"),
        (
            "status-listen",
            "HOST:PORT",
            f"/livez, /readyz, /metrics, /status; default {DEFAULT_STATUS_LISTEN}",
        ),
        ("tls-cert-file", "FILE", "https on --listen, for clients that insist on it"),
        ("tls-private-key-file", "FILE", "of --tls-cert-file; both are read again at a change"),
    ],
    "upstream": [
        ("server", "URL", "an API server, or another relay; default: the pod's own"),
        ("kubeconfig", "FILE[:FILE]", "default: the pod's service account"),
        ("context", "NAME", "of the kubeconfig; default: its current one"),
        ("service-account-dir", "DIR", f"default {SERVICE_ACCOUNT_DIR}"),
        ("origin", "upstream|local", "local: no upstream, the relay itself is the API server"),
        ("request-timeout", "5s", "hard limit of one request of the relay's own"),
        ("read-timeout", "1s", "then a read that was asked upstream is answered from here"),
        ("probe-interval", "1s", "between two looks at the link"),
    ],
    "what is kept": [
        ("data-dir", "DIR|memory", f"default {DEFAULT_DATA_DIR}; memory: nothing outlives us"),
        (
            "reads",
            "upstream|cache",
            "reads without resourceVersion, while the link is up: asked upstream, or answered here",
        ),
        (
            "preload",
            "RESOURCE[?QUERY]",
            "kept from the start, like pods?fieldSelector=spec.nodeName=n1, deployments.apps or "
            "widgets.v1.example.com?namespace=default; may be repeated",
        ),
        ("idle-timeout", "10m", "a stream that nobody reads is closed, its data stays"),
        ("retain", "7d", "for so long after anybody asked for it"),
        ("max-objects", "100000", "in all streams together"),
        ("max-watchers", "1000", "at a time"),
        ("watch-buffer", "4Mi", "what one watcher may leave unread before it is cut off"),
    ],
    "access": [
        (
            "access",
            "own|caller",
            "own: everybody acts with the relay's rights, on loopback only; caller: each with "
            "those of the token that it brings",
        ),
        ("access-ttl", "1m", "how long a decision about a caller stands"),
        ("access-offline-ttl", "24h", "the same while nobody can be asked, in running time"),
        ("local-token-file", "FILE", "with own: the bearer token that callers must bring"),
        ("allowed-host", "NAME", "with own: another name that clients call us; may be repeated"),
    ],
    "logging": [
        ("log-format", "text|json", "default text"),
        ("log-level", "debug|info|warning|error", "default info"),
    ],
}
REPEATED = frozenset({"preload", "allowed-host"})


def parser() -> Parser:
    it = Parser(
        prog="relay-sidecar",
        allow_abbrev=False,
        description="A Kubernetes API endpoint on localhost that lists and watches each thing "
        "once, keeps it, and goes on answering when the link is cut.",
        epilog="Sub-commands: `relay-sidecar kubeconfig` (prints one that points here), "
        "`relay-sidecar status` (streams, watchers, link). Every flag has an env twin, "
        f"{PREFIX}<FLAG>; one that may be repeated takes several values with spaces between.",
    )
    for title, options in GROUPS.items():
        group = it.add_argument_group(title)
        for name, value, text in options:
            action = "append" if name in REPEATED else "store"
            group.add_argument(f"--{name}", metavar=value, help=text, action=action)
    return it
