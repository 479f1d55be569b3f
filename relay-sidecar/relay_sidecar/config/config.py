"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. No option is ignored: what has no meaning beside another one is refused. A
flag wins over its twin `RELAY_<FLAG>`; unknown `RELAY_*` are ignored, because a Service named relay
injects some.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edge_sidecars.runtime.flags import Options, flag, named
from edge_sidecars.runtime.values import (
    Address,
    BadInput,
    address,
    host_name,
    seconds,
    size,
    url,
    whole,
)
from relay_sidecar.config.flags import (
    DEFAULT_DATA_DIR,
    DEFAULT_LISTEN,
    DEFAULT_STATUS_LISTEN,
    PREFIX,
    SERVICE_ACCOUNT_DIR,
    parser,
)
from relay_sidecar.config.preload import Preload, preload

MEMORY = "memory"
# RFC 1123 label, as Kubernetes wants names of namespaces.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Seconds; a faster probe is load and no news, a faster time-out is a round trip on a bad link.
MIN_TIME = 0.1
# Bytes; an event of etcd's largest object, 1.5 MiB, is two of these.
MIN_WATCH_BUFFER = 64 * 1024
# Without an upstream these would say nothing.
_UPSTREAM_ONLY = (
    *("server", "kubeconfig", "context", "request_timeout", "read_timeout", "probe_interval"),
    *("reads", "preload", "idle_timeout", "retain"),
)
_CALLER_ONLY = ("access_ttl", "access_offline_ttl")
_KUBECONFIG_ONLY = ("context",)
_OWN_ONLY = ("local_token_file", "allowed_host")


@dataclass(frozen=True)
class Config:
    """Everything that `relay-sidecar` is told; durations in seconds, sizes in bytes."""

    listen: Address
    status_listen: Address
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    is_local: bool  # no upstream: the relay is the origin
    server: str | None
    kubeconfig: Path | None
    context: str | None  # of the kubeconfig; None: its current one
    service_account_dir: Path
    request_timeout: float
    read_timeout: float
    probe_interval: float
    data_dir: Path | None  # None: memory
    reads_upstream: bool
    preload: tuple[Preload, ...]
    idle_timeout: float
    retain: float
    max_objects: int
    max_watchers: int
    watch_buffer: int
    asks_callers: bool  # --access caller
    access_ttl: float
    access_offline_ttl: float
    local_token_file: Path | None
    allowed_hosts: tuple[str, ...]
    namespace: str  # the pod's own, "" where unknown
    log_format: str
    log_level: str
    otlp_endpoint: str | None

    def __post_init__(self) -> None:
        self._check_limits()
        self._check_listeners()
        if self.is_local and self.asks_callers:
            raise BadInput(
                "--access caller has nobody to ask with --origin local: use --access own"
            )
        if self.asks_callers:
            self._check_tokens_stay_secret()
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise BadInput(
                f"{self.namespace!r:.80} is not a namespace: check POD_NAMESPACE and the file in "
                "--service-account-dir"
            )

    @property
    def is_tls(self) -> bool:
        return self.tls_cert_file is not None

    @property
    def warnings(self) -> tuple[str, ...]:
        wants_token = self.asks_callers or self.local_token_file is not None
        if wants_token and not self.is_tls:
            # client-go, tools/clientcmd/client_config.go: "only try to read the auth information
            # if we are secure".
            return ("Go clients send no token of a kubeconfig over http: add --tls-cert-file",)
        return ()

    def _check_limits(self) -> None:
        for name in ("request_timeout", "read_timeout", "probe_interval", "access_ttl"):
            value = getattr(self, name)
            if value < MIN_TIME:
                raise BadInput(f"{flag(name)} {value:g}s must be at least {MIN_TIME:g}s")
        for name in ("max_objects", "max_watchers"):
            if getattr(self, name) < 1:
                raise BadInput(f"{flag(name)} {getattr(self, name)} must be at least 1")
        if self.watch_buffer < MIN_WATCH_BUFFER:
            raise BadInput(
                f"--watch-buffer {self.watch_buffer} must be at least {MIN_WATCH_BUFFER // 1024}Ki"
            )
        if self.retain < self.idle_timeout:
            raise BadInput(
                f"--retain {self.retain:g}s is shorter than --idle-timeout "
                f"{self.idle_timeout:g}s: data would go while its stream is open"
            )
        if self.access_offline_ttl < self.access_ttl:
            raise BadInput(
                f"--access-offline-ttl {self.access_offline_ttl:g}s is shorter than --access-ttl "
                f"{self.access_ttl:g}s: raise it"
            )

    def _check_listeners(self) -> None:
        for name, it in (("--listen", self.listen), ("--status-listen", self.status_listen)):
            if it.path:
                raise BadInput(f"{name} {it}: clients of Kubernetes need host:port")
        if self.listen == self.status_listen and self.listen.port:
            raise BadInput(
                f"--status-listen {self.status_listen} is --listen: every path there belongs to "
                "Kubernetes; choose another port"
            )
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise BadInput("--tls-cert-file and --tls-private-key-file need each other: name both")
        if not self.asks_callers and not self.listen.is_loopback:
            raise BadInput(
                f"--listen {self.listen} is open to others, whom --access own would lend the "
                "relay's rights: use --access caller, or listen on 127.0.0.1"
            )

    def _check_tokens_stay_secret(self) -> None:
        if not self.listen.is_loopback and not self.is_tls:
            raise BadInput(
                f"--listen {self.listen} without TLS would let callers send their tokens in the "
                "clear: add --tls-cert-file, or listen on 127.0.0.1"
            )
        if self.server is not None:
            self.check_upstream(self.server)

    def check_upstream(self, server: str) -> None:
        """`server`: the kubeconfig's, where no flag names one. Raises `BadInput`."""
        host = urlsplit(server).hostname or ""
        is_clear = server.startswith("http:") and not Address(host, 0).is_loopback
        if self.asks_callers and is_clear:
            raise BadInput(
                f"--server {server} would be sent the callers' tokens in the clear: use https"
            )


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Raises `BadInput`."""
    options = Options(vars(parser().parse_args(arguments)), environ, prefix=PREFIX)
    is_local = options.choice("origin", "upstream", "local") == "local"
    asks_callers = options.choice("access", "own", "caller") == "caller"
    _refuse_meaningless(options, is_local=is_local, asks_callers=asks_callers)
    kubeconfig = _path(options, "kubeconfig")
    service_account_dir = Path(options.text("service_account_dir") or SERVICE_ACCOUNT_DIR)
    data_dir = options.text("data_dir") or DEFAULT_DATA_DIR
    return Config(
        listen=options.parsed("listen", address, address(DEFAULT_LISTEN)),
        status_listen=options.parsed("status_listen", address, address(DEFAULT_STATUS_LISTEN)),
        tls_cert_file=_path(options, "tls_cert_file"),
        tls_private_key_file=_path(options, "tls_private_key_file"),
        is_local=is_local,
        server=None if is_local else _server(options, kubeconfig, environ),
        kubeconfig=kubeconfig,
        context=options.text("context") or None,
        service_account_dir=service_account_dir,
        request_timeout=options.parsed("request_timeout", seconds, 5.0),
        read_timeout=options.parsed("read_timeout", seconds, 1.0),
        probe_interval=options.parsed("probe_interval", seconds, 1.0),
        data_dir=None if data_dir == MEMORY else Path(data_dir),
        reads_upstream=options.choice("reads", "upstream", "cache") == "upstream",
        preload=tuple(named("preload", preload, text) for text in options.texts("preload")),
        idle_timeout=options.parsed("idle_timeout", seconds, 600.0),
        retain=options.parsed("retain", seconds, 7 * 86400.0),
        max_objects=options.parsed("max_objects", whole, 100_000),
        max_watchers=options.parsed("max_watchers", whole, 1000),
        watch_buffer=options.parsed("watch_buffer", size, 4 * 1024**2),
        asks_callers=asks_callers,
        access_ttl=options.parsed("access_ttl", seconds, 60.0),
        access_offline_ttl=options.parsed("access_offline_ttl", seconds, 86400.0),
        local_token_file=_path(options, "local_token_file"),
        allowed_hosts=tuple(
            named("allowed_host", host_name, text) for text in options.texts("allowed_host")
        ),
        namespace=environ.get("POD_NAMESPACE") or namespace_in(service_account_dir),
        log_format=options.choice("log_format", "text", "json"),
        log_level=options.choice("log_level", "info", "debug", "warning", "error"),
        otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
    )


def namespace_in(service_account_dir: Path) -> str:
    """Where this pod lives; "" outside of a pod. Raises `BadInput`."""
    file = service_account_dir / "namespace"
    try:
        return file.read_text().strip() if file.is_file() else ""
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: {error}; set POD_NAMESPACE") from error


def _refuse_meaningless(options: Options, *, is_local: bool, asks_callers: bool) -> None:
    for is_meaningless, names, remedy in (
        (is_local, _UPSTREAM_ONLY, "with --origin local there is no upstream: drop one"),
        (not options.text("kubeconfig"), _KUBECONFIG_ONLY, "needs --kubeconfig"),
        (not asks_callers, _CALLER_ONLY, "needs --access caller"),
        (asks_callers, _OWN_ONLY, "is for --access own: drop one"),
    ):
        told = next(options.among(*names), None)
        if is_meaningless and told is not None:
            raise BadInput(f"{told}: {remedy}")


def _path(options: Options, name: str) -> Path | None:
    text = options.text(name)
    return Path(text) if text else None


def _server(options: Options, kubeconfig: Path | None, environ: Mapping[str, str]) -> str | None:
    """None where the kubeconfig tells it."""
    server = options.parsed("server", url, None)
    if server or kubeconfig:
        return server
    host = environ.get("KUBERNETES_SERVICE_HOST")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadInput(
            "no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; "
            "name a --kubeconfig or a --server, or use --origin local"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
