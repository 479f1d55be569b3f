"""The command line: flags with env twins, checked once, frozen.

Owns names, defaults and the messages for bad input, each of which names the value and the remedy.
A flag wins over its twin `ELECTOR_<FLAG>`; unknown `ELECTOR_*` are ignored, because a Service
named elector injects some. Contrib leader-elector's flags are accepted under their own names.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from edge_sidecars.runtime.flags import Options, named
from edge_sidecars.runtime.values import Address, BadInput, address, seconds, url, whole
from elector_sidecar.config.flags import DEFAULT_LISTEN, SERVICE_ACCOUNT_DIR, contrib_dest, parser
from elector_sidecar.core.timing import MARGIN, MIN_LEASE_DURATION, Timing, UnsafeTiming

__all__ = ["Address", "BadInput", "Config", "address", "load", "parser", "seconds"]

# RFC 1123 subdomain, as Kubernetes wants names of objects.
NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_NAME = 253
# RFC 1123 label, as it wants names of namespaces.
NAMESPACE_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_PATTERN = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    r"=([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
)
# It stands in a header of each request, beside the uuid in the Lease, and in log lines.
MAX_IDENTITY = 253
# Owner and group of a unix socket; in a pod with fsGroup that is every container's group.
SOCKET_MODE = 0o660

# Our option, and the flag of contrib's that says the same.
_CONTRIB_NAMES = {"lease": "election", "identity": "id", "namespace": "election_namespace"}

T = TypeVar("T")


@dataclass(frozen=True)
class Config:
    """Everything that `elector-sidecar` is told; durations in seconds."""

    lease: str
    namespace: str
    identity: str
    timing: Timing
    take_missing: bool
    listen: Address | None  # None: contrib's listener stands in its place
    socket_mode: int
    probe_listen: Address | None
    contrib_listen: Address | None
    health_url: str | None
    health_interval: float
    health_failures: int
    health_grace: float
    health_backoff: float
    drain_url: str | None
    drain_timeout: float
    release_on_term: bool
    notify_url: str | None
    leader_label: tuple[str, str] | None
    pod_name: str | None
    pod_namespace: str
    kubeconfig: Path | None
    context: str | None  # of the kubeconfig; None: its current one
    server: str | None
    service_account_dir: Path
    log_format: str
    log_level: str
    otlp_endpoint: str | None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.lease) or len(self.lease) > MAX_NAME:
            raise BadInput(
                f"--lease {self.lease!r} is not a Lease name: lower-case, digits, - and ."
            )
        if self.namespace and not NAMESPACE_PATTERN.fullmatch(self.namespace):
            raise BadInput(
                f"--namespace {self.namespace!r} is not a namespace: lower-case, digits and -"
            )
        if not self.identity.isprintable() or len(self.identity) > MAX_IDENTITY:
            raise BadInput(
                f"--identity {self.identity!r} is not printable or over {MAX_IDENTITY} characters: "
                "use the pod's name"
            )
        if self.health_failures < 1:
            raise BadInput(f"--health-failures {self.health_failures} must be at least 1")
        if self.health_interval <= 0:
            raise BadInput(f"--health-interval {self.health_interval:g}s must be positive")
        if self.leader_label and not self.pod_name:
            raise BadInput("--leader-label needs the pod's own name: set POD_NAME (downward API)")


def load(arguments: Sequence[str], environ: Mapping[str, str], *, hostname: str) -> Config:
    """Raises `BadInput`."""
    given = vars(parser().parse_args(arguments))
    try:
        return _Loader(given, environ).config(hostname)
    except UnsafeTiming as error:
        raise BadInput(str(error)) from error


class _Loader:
    """Contrib's flags stand in for ours, before env twins do."""

    def __init__(self, given: Mapping[str, str | None], environ: Mapping[str, str]) -> None:
        self._given = given
        self._environ = environ
        own = dict(given)
        for name, old in _CONTRIB_NAMES.items():
            if own[name] is None:
                own[name] = given[contrib_dest(old)]
        self._options = Options(own, environ, prefix="ELECTOR_")
        self._warnings: list[str] = []

    def config(self, hostname: str) -> Config:
        environ, options = self._environ, self._options
        pod_name = environ.get("POD_NAME") or None
        lease = options.text("lease")
        if not lease:
            raise BadInput("--lease is required: name the Lease, like --lease my-controller")
        folder = Path(options.text("service_account_dir") or SERVICE_ACCOUNT_DIR)
        namespace = self._namespace(folder)
        kubeconfig = self._kubeconfig()
        contrib_listen = self._contrib("http", address)
        default_listen = address(DEFAULT_LISTEN) if contrib_listen is None else None
        return Config(
            lease=lease,
            namespace=namespace,
            identity=options.text("identity") or pod_name or hostname,
            timing=self._timing(),
            take_missing=options.choice("on_missing", "wait", "take") == "take",
            listen=options.parsed("listen", address, default_listen),
            socket_mode=options.parsed("socket_mode", _mode, SOCKET_MODE),
            probe_listen=options.parsed("probe_listen", address, None),
            contrib_listen=contrib_listen,
            health_url=options.parsed("health_url", url, None),
            health_interval=options.parsed("health_interval", seconds, 1.0),
            health_failures=options.parsed("health_failures", whole, 3),
            health_grace=options.parsed("health_grace", seconds, 30.0),
            health_backoff=options.parsed("health_backoff", seconds, 10.0),
            drain_url=options.parsed("drain_url", url, None),
            drain_timeout=options.parsed("drain_timeout", seconds, 10.0),
            release_on_term=options.parsed("release_on_term", _switch, default=False),
            notify_url=options.parsed("notify_url", url, None),
            leader_label=options.parsed("leader_label", _label, None),
            pod_name=pod_name,
            pod_namespace=self._pod_namespace(folder) or namespace,
            kubeconfig=kubeconfig,
            context=self._context(kubeconfig),
            server=self._server(kubeconfig),
            service_account_dir=folder,
            log_format=options.choice("log_format", "text", "json"),
            log_level=options.choice("log_level", "info", "debug", "warning", "error"),
            otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
            warnings=tuple(self._warnings),
        )

    def _contrib(self, name: str, parse: Callable[[str], T]) -> T | None:
        text = self._given.get(contrib_dest(name))
        return named(name, parse, text) if text else None

    def _timing(self) -> Timing:
        ttl = self._contrib("ttl", seconds)
        if ttl is None or self._given.get("lease_duration") is not None:
            return Timing(
                lease_duration=self._options.parsed("lease_duration", seconds, 15.0),
                renew_interval=self._options.parsed("renew_interval", seconds, 2.0),
                request_timeout=self._options.parsed("request_timeout", seconds, 3.0),
            )
        duration = max(float(math.ceil(ttl)), MIN_LEASE_DURATION)
        if duration != ttl:
            self._warnings.append(f"--ttl {ttl:g}s was raised to {duration:g}s")
        # Contrib's short leases leave no room for our defaults: the same order, scaled down.
        renew = min(2.0, max(1.0, duration / 5))
        timeout = min(3.0, 0.9 * (duration * 0.95 - renew - MARGIN))
        return Timing(
            lease_duration=duration,
            renew_interval=self._options.parsed("renew_interval", seconds, renew),
            request_timeout=self._options.parsed("request_timeout", seconds, timeout),
        )

    def _namespace(self, folder: Path) -> str:
        """ "" where only the kubeconfig's context can tell."""
        namespace = self._options.text("namespace") or self._pod_namespace(folder)
        if not namespace and not self._options.text("kubeconfig"):
            raise BadInput(
                "--namespace is missing: neither POD_NAMESPACE nor "
                f"{folder / 'namespace'} tells the pod's own; name it"
            )
        return namespace

    def _pod_namespace(self, folder: Path) -> str:
        """Where this pod lives; "" outside of a pod."""
        named = self._environ.get("POD_NAMESPACE")
        if named:
            return named
        file = folder / "namespace"
        try:
            return file.read_text().strip() if file.is_file() else ""
        except (OSError, ValueError) as error:
            raise BadInput(f"{file}: {error}; name the --namespace") from error

    def _kubeconfig(self) -> Path | None:
        name = self._options.text("kubeconfig")
        is_in_cluster = self._contrib("use_cluster_credentials", _switch)
        if name and is_in_cluster:
            raise BadInput(
                "--use-cluster-credentials and --kubeconfig exclude each other: drop one"
            )
        return Path(name) if name else None

    def _context(self, kubeconfig: Path | None) -> str | None:
        name = self._options.text("context") or None
        if name is not None and kubeconfig is None:
            raise BadInput(f"--context {name} needs --kubeconfig")
        return name

    def _server(self, kubeconfig: Path | None) -> str | None:
        server = self._options.parsed("server", url, None)
        if server or kubeconfig:
            return server
        host = self._environ.get("KUBERNETES_SERVICE_HOST")
        port = self._environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise BadInput(
                "no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; "
                "name a --kubeconfig or a --server"
            )
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _switch(text: str) -> bool:
    if text.lower() in ("false", "0", "no"):
        return False
    if text.lower() in ("true", "1", "yes"):
        return True
    raise BadInput(f"{text!r}: write true or false")


def _mode(text: str) -> int:
    """Octal, as for chmod."""
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise BadInput(f"{text!r} is not a mode: write it as for chmod, like 0660")
    return mode


def _label(text: str) -> tuple[str, str]:
    if not LABEL_PATTERN.fullmatch(text):
        raise BadInput(f"{text!r} is not KEY=VALUE with a valid label key and value")
    key, _, value = text.partition("=")
    return key, value
