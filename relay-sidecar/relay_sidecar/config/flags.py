"""The command line's words: every flag, its help, and where its value is looked up.

Knows no meaning: values stay text here, and every default is None, so that an env twin can fill
in before the real default. An unknown flag is `BadInput` that names the nearest known one.
"""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NoReturn, TypeVar

from relay_sidecar.config.values import BadInput

# The port of KubeEdge's Autonomic Kube-API Endpoint, so that its users find ours.
DEFAULT_LISTEN = "127.0.0.1:10550"
DEFAULT_STATUS_LISTEN = "127.0.0.1:10551"
DEFAULT_DATA_DIR = "/var/lib/relay-sidecar"
# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "RELAY_"

T = TypeVar("T")

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
        ("kubeconfig", "FILE", "default: the pod's service account"),
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
        ("access-offline-ttl", "24h", "the same while nobody can be asked"),
        ("local-token-file", "FILE", "with own: the bearer token that callers must bring"),
        ("allowed-host", "NAME", "with own: another name that clients call us; may be repeated"),
    ],
    "logging": [
        ("log-format", "text|json", "default text"),
        ("log-level", "debug|info|warning|error", "default info"),
    ],
}
REPEATED = frozenset({"preload", "allowed-host"})


class Parser(argparse.ArgumentParser):
    """Raises `BadInput` from `parse_args`: one line instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}{self._hint(message)}; `{self.prog} --help` lists the flags")

    def _hint(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: (--?[\w-]+)", message)
        if unknown is None:
            return ""
        from difflib import get_close_matches

        near = get_close_matches(unknown[1], self._option_string_actions, n=1)
        return f" (did you mean {near[0]}?)" if near else ""


def parser() -> argparse.ArgumentParser:
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


class Options:
    """One look-up order for every option: flag, env twin, default.

    An empty value is none: manifests leave variables empty rather than out.
    """

    def __init__(
        self, given: Mapping[str, str | list[str] | None], environ: Mapping[str, str]
    ) -> None:
        self._given = given
        self._environ = environ

    def text(self, name: str) -> str:
        """ "" where nothing was said."""
        value = self._given.get(name)
        return value if isinstance(value, str) else self._environ.get(twin(name), "")

    def texts(self, name: str) -> list[str]:
        """Of an option that may be repeated."""
        value = self._given.get(name)
        texts = value if isinstance(value, list) else self._environ.get(twin(name), "").split()
        return [text for text in texts if text]

    def parsed(self, name: str, parse: Callable[[str], T], default: T) -> T:
        text = self.text(name)
        return named(name, parse, text) if text else default

    def choice(self, name: str, *choices: str) -> str:
        """The first choice is the default."""
        text = self.text(name) or choices[0]
        if text not in choices:
            raise BadInput(f"{flag(name)} {text!r}: choose one of {', '.join(choices)}")
        return text

    def among(self, *names: str) -> Iterator[str]:
        """Those of the options about which something was said, as it was said."""
        for name in names:
            for text in self.texts(name) if flag(name)[2:] in REPEATED else [self.text(name)]:
                if text:
                    yield f"{flag(name)} {text}"


def named(name: str, parse: Callable[[str], T], text: str) -> T:
    """Raises `BadInput` that begins with the flag."""
    try:
        return parse(text)
    except BadInput as error:
        raise BadInput(f"{flag(name)} {error}") from error


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def twin(name: str) -> str:
    return PREFIX + name.upper()
