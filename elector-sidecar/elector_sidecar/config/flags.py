"""The command line's words: every flag, its help, and contrib leader-elector's old names.

Knows no meaning: values stay text here, and every default is None, so that an env twin can fill
in before the real default. An unknown flag is `BadInput` that names the nearest known one.
"""

import argparse

from edge_sidecars.runtime.flags import Parser

# The port of contrib's examples, so that clients of the drop-in find it.
DEFAULT_LISTEN = "127.0.0.1:4040"
# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"

# (flag, its value, help), by group.
_GROUPS: dict[str, list[tuple[str, str, str]]] = {
    "election": [
        ("lease", "NAME", "Lease name (required)"),
        ("namespace", "NS", "default: the pod's own, or the kubeconfig context's"),
        ("identity", "ID", "default: POD_NAME, else the host name"),
        ("lease-duration", "15s", "whole seconds, at least 3s"),
        ("renew-interval", "2s", "at least 1s"),
        ("request-timeout", "3s", "hard limit of one API request, once it has a connection"),
        (
            "on-missing",
            "wait|take",
            "a Lease that does not exist: wait one lease duration, or create at once",
        ),
    ],
    "HTTP": [
        ("listen", "[HOST]:PORT|unix:/PATH", f"default {DEFAULT_LISTEN}"),
        ("socket-mode", "0660", "of the unix socket: who may connect"),
        (
            "probe-listen",
            "[HOST]:PORT",
            "read-only paths, for kubelet and Prometheus; default off",
        ),
    ],
    "the main container": [
        ("health-url", "URL", "contend only while the main is healthy"),
        ("health-interval", "1s", "between two checks; also the limit of one, if over 1s"),
        ("health-failures", "3", "so many in a row make it unhealthy"),
        ("health-grace", "30s", "from acquisition, before failures count"),
        ("health-backoff", "10s", "an ex-leader contends again after it"),
        (
            "drain-url",
            "URL",
            "POSTed before release; a 2xx says that the main has stopped leading",
        ),
        ("drain-timeout", "10s", "then the Lease is left to expire"),
    ],
    "telling others": [
        ("notify-url", "URL", "the /leader document is POSTed there at each change"),
        ("leader-label", "KEY=VALUE", "kept on the leader's pod, taken off all others"),
    ],
    "API server": [
        ("kubeconfig", "FILE[:FILE]", "default: the pod's service account"),
        ("context", "NAME", "of the kubeconfig; default: its current one"),
        ("server", "URL", "overrides the address"),
        ("service-account-dir", "DIR", f"default {SERVICE_ACCOUNT_DIR}"),
    ],
    "logging": [
        ("log-format", "text|json", "default text"),
        ("log-level", "debug|info|warning|error", "default info"),
    ],
}
_CONTRIB = {
    "election": "= --lease",
    "election-namespace": "= --namespace",
    "id": "= --identity",
    "ttl": "= --lease-duration, raised to 3s",
    "http": "the API, and the JSON of / on every unknown path; replaces the default of --listen",
}
_CONTRIB_SWITCH = "use-cluster-credentials"


def parser() -> argparse.ArgumentParser:
    """Raises `BadInput` from `parse_args`."""
    it = Parser(
        prog="elector-sidecar",
        allow_abbrev=False,
        description="Contends for a Kubernetes Lease and answers on localhost who leads.",
        epilog="Sub-commands: `elector-sidecar check` (exit 0 only if leader), "
        "`elector-sidecar status` (who leads). Every flag has an env twin, ELECTOR_<FLAG>.",
    )
    for title, options in _GROUPS.items():
        group = it.add_argument_group(title)
        for name, value, text in options:
            group.add_argument(f"--{name}", metavar=value, help=text)
        if title == "the main container":
            _add_switch(
                group,
                "--release-on-term",
                text="at SIGTERM the main has stopped already (native sidecars)",
            )
    old = it.add_argument_group("contrib leader-elector's flags, one or two dashes")
    for name, text in _CONTRIB.items():
        old.add_argument(
            f"--{name}", f"-{name}", dest=contrib_dest(name), metavar="VALUE", help=text
        )
    _add_switch(
        old,
        f"--{_CONTRIB_SWITCH}",
        f"-{_CONTRIB_SWITCH}",
        text="the pod's service account",
        dest=contrib_dest(_CONTRIB_SWITCH),
    )
    return it


def _add_switch(
    group: argparse._ArgumentGroup, *names: str, text: str, dest: str | None = None
) -> None:
    """`--name` alone means true, as Go's boolean flags do."""
    group.add_argument(
        *names,
        dest=dest or names[0].lstrip("-").replace("-", "_"),
        metavar="true|false",
        nargs="?",
        const="true",
        help=text,
    )


def contrib_dest(name: str) -> str:
    """Under which name the parsed value of a contrib flag stands."""
    return "contrib_" + name.replace("-", "_")
