"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. No option is ignored: what has no meaning beside another one is refused. A
flag wins over its twin `GM_<FLAG>`; unknown `GM_*` are ignored, because a Service named gm injects
some.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from edge_sidecars.runtime.flags import Options, flag
from edge_sidecars.runtime.values import Address, BadInput, address, seconds, url, whole
from gm.config.flags import (
    DEFAULT_API,
    DEFAULT_ELECTOR,
    DEFAULT_KB_SERVER,
    DEFAULT_LC_SERVER,
    DEFAULT_LISTEN,
    DEFAULT_RELAY_STATUS,
    DEFAULT_STREAM_LISTEN,
    PREFIX,
    parser,
)

OFF = "off"
# RFC 1123 label, as Kubernetes wants names of namespaces.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Where the cluster's own workloads are: who may create a job may run any pod beside them.
KUBE_SYSTEM = "kube-system"
# Seconds; a round trip to the API server and its etcd takes some milliseconds.
MIN_REQUEST_TIMEOUT = 0.1
MAX_CONCURRENCY = 256
_TLS = ("tls_cert", "tls_key", "client_ca")
# Without a hub these would say nothing.
_HUB_ONLY = ("stream_listen", "sedna_listen", *_TLS, "review_tokens")


class Mode(Enum):
    """How LCs are reached; who reconciles is the elector's affair in each of them."""

    ACTIVE_STANDBY = "active-standby"
    ACTIVE_ACTIVE = "active-active"
    RELAY = "relay"


@dataclass(frozen=True)
class Config:
    """Everything that `gm` is told; durations in seconds."""

    mode: Mode
    namespaces: tuple[str, ...]  # none: all
    allow_kube_system: bool
    api: str
    relay_status: str | None  # None: nobody tells about the link
    elector: str
    stream_listen: Address | None
    sedna_listen: Address | None
    tls_cert: Path | None
    tls_key: Path | None
    client_ca: Path | None
    review_tokens: bool
    lc_server: str
    kb_server: str
    listen: Address
    concurrency: int
    request_timeout: float
    log_format: str
    log_level: str

    def __post_init__(self) -> None:
        self._check_namespaces()
        if self.request_timeout < MIN_REQUEST_TIMEOUT:
            raise BadInput(
                f"--request-timeout {self.request_timeout:g}s must be at least "
                f"{MIN_REQUEST_TIMEOUT:g}s"
            )
        if not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise BadInput(
                f"--concurrency {self.concurrency} must be between 1 and {MAX_CONCURRENCY}"
            )
        self._check_listeners()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadInput("--tls-cert and --tls-key need each other: name both")
        if self.client_ca is not None and self.tls_cert is None:
            raise BadInput(f"--client-ca {self.client_ca} needs --tls-cert and --tls-key")
        if self.review_tokens and self.tls_cert is None:
            raise BadInput(
                "--review-tokens true would let LCs send their tokens in the clear: add --tls-cert"
            )
        if self.review_tokens and self.client_ca is not None:
            raise BadInput(
                f"--review-tokens true and --client-ca {self.client_ca} both prove the node: "
                "drop one"
            )

    @property
    def refused_namespaces(self) -> frozenset[str]:
        """No worker is made there."""
        return frozenset() if self.allow_kube_system else frozenset({KUBE_SYSTEM})

    def _check_namespaces(self) -> None:
        for namespace in self.namespaces:
            if not _NAMESPACE.fullmatch(namespace):
                raise BadInput(
                    f"--namespace {namespace!r:.80} is not a namespace: lower-case, digits and -"
                )
            if namespace in self.refused_namespaces:
                raise BadInput(
                    f"--namespace {namespace}: whoever may create jobs there could run any pod "
                    "among the cluster's own; name another, or add --allow-kube-system true"
                )
        if self.namespaces and self.allow_kube_system and KUBE_SYSTEM not in self.namespaces:
            raise BadInput(
                f"--allow-kube-system true: {KUBE_SYSTEM} is none of --namespace "
                f"{' '.join(self.namespaces)}: name it, or drop one"
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        told = []
        is_proven = self.client_ca is not None or self.review_tokens
        if self.stream_listen is not None and not is_proven:
            told.append("without --client-ca or --review-tokens any LC is believed to be any node")
        if self.sedna_listen is not None:
            told.append("--sedna-listen has no authentication: whoever reaches it is believed")
        return tuple(told)

    def _check_listeners(self) -> None:
        named = {
            "--listen": self.listen,
            "--stream-listen": self.stream_listen,
            "--sedna-listen": self.sedna_listen,
        }
        ports: dict[int, str] = {}
        for name, it in named.items():
            if it is None:
                continue
            if it.path:
                raise BadInput(f"{name} {it}: LCs, kubelet and Prometheus need host:port")
            if it.port and it.port in ports:
                raise BadInput(f"{name} {it} has the port of {ports[it.port]}: choose another one")
            ports[it.port] = name


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Raises `BadInput`."""
    options = Options(vars(parser().parse_args(arguments)), environ, prefix=PREFIX)
    mode = Mode(options.choice("mode", *(each.value for each in Mode)))
    if mode is Mode.RELAY:
        told = next(options.among(*_HUB_ONLY), None)
        if told is not None:
            raise BadInput(f"{told}: with --mode relay no LC comes to GM: drop one")
    has_hub = mode is not Mode.RELAY
    relay_status = options.text("relay_status") or DEFAULT_RELAY_STATUS
    return Config(
        mode=mode,
        namespaces=tuple(dict.fromkeys(options.texts("namespace"))),
        allow_kube_system=options.choice("allow_kube_system", "false", "true") == "true",
        api=_base(options, "api", DEFAULT_API),
        relay_status=None if relay_status == OFF else _base(options, "relay_status", relay_status),
        elector=_base(options, "elector", DEFAULT_ELECTOR),
        stream_listen=(
            options.parsed("stream_listen", address, address(DEFAULT_STREAM_LISTEN))
            if has_hub
            else None
        ),
        sedna_listen=options.parsed("sedna_listen", address, None),
        tls_cert=_path(options, "tls_cert"),
        tls_key=_path(options, "tls_key"),
        client_ca=_path(options, "client_ca"),
        review_tokens=options.choice("review_tokens", "false", "true") == "true",
        lc_server=options.parsed("lc_server", url, DEFAULT_LC_SERVER),
        kb_server=options.parsed("kb_server", url, DEFAULT_KB_SERVER),
        listen=options.parsed("listen", address, address(DEFAULT_LISTEN)),
        concurrency=options.parsed("concurrency", whole, 32),
        request_timeout=options.parsed("request_timeout", seconds, 5.0),
        log_format=options.choice("log_format", "text", "json"),
        log_level=options.choice("log_level", "info", "debug", "warning", "error"),
    )


def _base(options: Options, name: str, default: str) -> str:
    """A sidecar's address: it is asked in the clear, so on this machine."""
    text = options.parsed(name, url, default)
    if not text.startswith("http:"):
        raise BadInput(f"{flag(name)} {text}: sidecars are asked over http, like {default}")
    return text.rstrip("/")


def _path(options: Options, name: str) -> Path | None:
    text = options.text(name)
    return Path(text) if text else None
