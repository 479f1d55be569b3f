"""The command line: flags with env twins, checked once, frozen.

Owns names, defaults and the messages for bad input, each of which names the value and the remedy.
A flag wins over its twin `ELECTOR_<FLAG>`; unknown `ELECTOR_*` are ignored, because a Service
named elector injects some. Contrib leader-elector's flags are accepted under their own names.
"""

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .timing import MARGIN, MIN_LEASE_DURATION, Timing, UnsafeTiming

# The port of contrib's examples, so that clients of the drop-in find it.
DEFAULT_LISTEN = "127.0.0.1:4040"
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"
NAME_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")  # RFC 1123 subdomain
LABEL_PATTERN = re.compile(
    r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    r"=([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
)
_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")


class BadInput(ValueError):
    """One line that names the value and the remedy."""


def seconds(text: str) -> float:
    """`1.5s`, `500ms`, `2m30s`, or bare seconds; raises `BadInput`."""
    total, end = 0.0, 0
    for match in _DURATION.finditer(text):
        if match.start() != end:
            break
        total += float(match[1]) * _UNITS[match[2] or ""]
        end = match.end()
    if not text or end != len(text) or not math.isfinite(total):
        raise BadInput(f"{text!r} is not a duration: write it like 15s, 500ms or 1m30s")
    return total


@dataclass(frozen=True)
class Address:
    """Where to listen: `host:port`, or `unix:/path`."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"unix:{self.path}" if self.path else f"{host}:{self.port}"


def address(text: str) -> Address:
    """Raises `BadInput`."""
    if text.startswith("unix:"):
        if not text.startswith("unix:/"):
            raise BadInput(f"{text!r}: a unix socket needs an absolute path, like unix:/run/e.sock")
        return Address("", 0, text.removeprefix("unix:"))
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise BadInput(f"{text!r} is not host:port (like 127.0.0.1:4040) or unix:/path")
    return Address(host.strip("[]") or "0.0.0.0", int(port))  # contrib's ":4040" means all


@dataclass(frozen=True)
class Config:
    """Everything that `elector-sidecar` is told; durations in seconds."""

    lease: str
    namespace: str
    identity: str
    timing: Timing
    take_missing: bool
    listen: Address
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
    server: str | None
    service_account_dir: Path
    log_format: str
    log_level: str
    otlp_endpoint: str | None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.lease):
            raise BadInput(
                f"--lease {self.lease!r} is not a Lease name: lower-case, digits, - and ."
            )
        if self.health_failures < 1:
            raise BadInput(f"--health-failures {self.health_failures} must be at least 1")
        if self.health_interval <= 0:
            raise BadInput(f"--health-interval {self.health_interval:g}s must be positive")
        if self.leader_label and not self.pod_name:
            raise BadInput("--leader-label needs the pod's own name: set POD_NAME (downward API)")


def parser() -> argparse.ArgumentParser:
    """The flags; every default is None here, so that twins can fill in before the real ones."""
    it = argparse.ArgumentParser(
        prog="elector-sidecar",
        allow_abbrev=False,
        description="Contends for a Kubernetes Lease and answers on localhost who leads.",
        epilog="Sub-commands: `elector-sidecar check` (exit 0 only if leader), "
        "`elector-sidecar status` (who leads). Every flag has an env twin, ELECTOR_<FLAG>.",
    )
    main = it.add_argument_group("election")
    main.add_argument("--lease", metavar="NAME", help="Lease name (required)")
    main.add_argument(
        "--namespace", metavar="NS", help="default: the pod's own, or the kubeconfig context's"
    )
    main.add_argument("--identity", metavar="ID", help="default: POD_NAME, else the host name")
    main.add_argument("--lease-duration", metavar="15s", help="whole seconds, at least 3s")
    main.add_argument("--renew-interval", metavar="2s", help="at least 1s")
    main.add_argument("--request-timeout", metavar="3s", help="hard limit of one API request")
    main.add_argument(
        "--on-missing",
        metavar="wait|take",
        help="a Lease that does not exist: wait one lease duration, or create at once",
    )
    http = it.add_argument_group("HTTP")
    http.add_argument("--listen", metavar="HOST:PORT|unix:/PATH", help=f"default {DEFAULT_LISTEN}")
    http.add_argument(
        "--probe-listen",
        metavar="HOST:PORT",
        help="read-only paths, for kubelet and Prometheus; default off",
    )
    gate = it.add_argument_group("the main container")
    gate.add_argument("--health-url", metavar="URL", help="contend only while the main is healthy")
    gate.add_argument("--health-interval", metavar="1s")
    gate.add_argument("--health-failures", metavar="3")
    gate.add_argument(
        "--health-grace", metavar="30s", help="from acquisition, before failures count"
    )
    gate.add_argument(
        "--health-backoff", metavar="10s", help="an ex-leader contends again after it"
    )
    gate.add_argument(
        "--drain-url",
        metavar="URL",
        help="POSTed before release; a 2xx says that the main has stopped leading",
    )
    gate.add_argument("--drain-timeout", metavar="10s")
    gate.add_argument(
        "--release-on-term",
        metavar="true|false",
        nargs="?",
        const="true",
        help="at SIGTERM the main has stopped already (native sidecars)",
    )
    tell = it.add_argument_group("telling others")
    tell.add_argument(
        "--notify-url", metavar="URL", help="the /leader document is POSTed there at each change"
    )
    tell.add_argument(
        "--leader-label", metavar="KEY=VALUE", help="kept on the leader's pod, taken off all others"
    )
    api = it.add_argument_group("API server")
    api.add_argument("--kubeconfig", metavar="FILE", help="default: the pod's service account")
    api.add_argument("--server", metavar="URL", help="overrides the address")
    api.add_argument("--service-account-dir", metavar="DIR", help=f"default {SERVICE_ACCOUNT_DIR}")
    log = it.add_argument_group("logging")
    log.add_argument("--log-format", metavar="text|json")
    log.add_argument("--log-level", metavar="debug|info|warning|error")
    old = it.add_argument_group("contrib leader-elector's flags, one or two dashes")
    for name, text in _CONTRIB.items():
        old.add_argument(f"--{name}", f"-{name}", dest=_contrib(name), metavar="VALUE", help=text)
    cluster = "use-cluster-credentials"
    old.add_argument(
        f"--{cluster}",
        f"-{cluster}",
        dest=_contrib(cluster),
        metavar="true|false",
        nargs="?",
        const="true",
        help="the pod's service account",
    )
    return it


_CONTRIB = {
    "election": "= --lease",
    "election-namespace": "= --namespace",
    "id": "= --identity",
    "ttl": "= --lease-duration, raised to 3s",
    "http": "a listener that answers the JSON of / on every path",
}


def _contrib(name: str) -> str:
    return "contrib_" + name.replace("-", "_")


def load(arguments: Sequence[str], environ: Mapping[str, str], *, hostname: str) -> Config:
    """Raises `BadInput`; argparse itself exits with 2 for an unknown flag."""
    given = vars(parser().parse_args(arguments))
    return _Loader(given, environ).config(hostname)


class _Loader:
    """One look-up order for every option: flag, contrib's flag, env twin, default."""

    def __init__(self, given: Mapping[str, str | None], environ: Mapping[str, str]) -> None:
        self._given = given
        self._environ = environ
        self._warnings: list[str] = []

    def config(self, hostname: str) -> Config:
        environ = self._environ
        pod_name = environ.get("POD_NAME")
        lease = self._text("lease", contrib="election")
        if not lease:
            raise BadInput("--lease is required: name the Lease, like --lease my-controller")
        folder = Path(self._text("service_account_dir") or SERVICE_ACCOUNT_DIR)
        kubeconfig = self._text("kubeconfig")
        if kubeconfig and self._flag("use_cluster_credentials", contrib=True):
            raise BadInput(
                "--use-cluster-credentials and --kubeconfig exclude each other: drop one"
            )
        contrib_listen = self._given.get("contrib_http")
        probe_listen = self._text("probe_listen")
        namespace = self._namespace(folder)
        try:
            return Config(
                lease=lease,
                namespace=namespace,
                identity=self._text("identity", contrib="id") or pod_name or hostname,
                timing=self._timing(),
                take_missing=self._choice("on_missing", "wait", "take") == "take",
                listen=self._address("listen", self._text("listen") or DEFAULT_LISTEN),
                probe_listen=self._address("probe_listen", probe_listen) if probe_listen else None,
                contrib_listen=self._address("http", contrib_listen) if contrib_listen else None,
                health_url=self._url("health_url"),
                health_interval=self._seconds("health_interval", 1.0),
                health_failures=self._whole("health_failures", 3),
                health_grace=self._seconds("health_grace", 30.0),
                health_backoff=self._seconds("health_backoff", 10.0),
                drain_url=self._url("drain_url"),
                drain_timeout=self._seconds("drain_timeout", 10.0),
                release_on_term=self._flag("release_on_term"),
                notify_url=self._url("notify_url"),
                leader_label=self._label(),
                pod_name=pod_name,
                pod_namespace=self._pod_namespace(folder) or namespace,
                kubeconfig=Path(kubeconfig) if kubeconfig else None,
                server=self._server(kubeconfig),
                service_account_dir=folder,
                log_format=self._choice("log_format", "text", "json"),
                log_level=self._choice("log_level", "info", "debug", "warning", "error"),
                otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
                warnings=tuple(self._warnings),
            )
        except UnsafeTiming as error:
            raise BadInput(str(error)) from error

    def _text(self, name: str, *, contrib: str | None = None) -> str | None:
        value = self._given.get(name)
        if value is None and contrib is not None:
            value = self._given.get(f"contrib_{contrib}")
        return value if value is not None else self._environ.get(f"ELECTOR_{name.upper()}")

    def _seconds(self, name: str, default: float) -> float:
        text = self._text(name)
        try:
            return default if text is None else seconds(text)
        except BadInput as error:
            raise BadInput(f"{_flag_name(name)} {error}") from error

    def _whole(self, name: str, default: int) -> int:
        text = self._text(name)
        if text is not None and not text.isdecimal():
            raise BadInput(f"{_flag_name(name)} {text!r} is not a whole number")
        return default if text is None else int(text)

    def _choice(self, name: str, *choices: str) -> str:
        text = self._text(name) or choices[0]
        if text not in choices:
            raise BadInput(f"{_flag_name(name)} {text!r}: choose one of {', '.join(choices)}")
        return text

    def _flag(self, name: str, *, contrib: bool = False) -> bool:
        text = self._given.get(f"contrib_{name}") if contrib else self._text(name)
        if text is None or text.lower() in ("false", "0", "no", ""):
            return False
        if text.lower() in ("true", "1", "yes"):
            return True
        raise BadInput(f"{_flag_name(name)} {text!r}: write true or false")

    def _address(self, name: str, text: str) -> Address:
        try:
            return address(text)
        except BadInput as error:
            raise BadInput(f"{_flag_name(name)} {error}") from error

    def _url(self, name: str) -> str | None:
        text = self._text(name)
        if text and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", text):
            raise BadInput(
                f"{_flag_name(name)} {text!r} is not a URL like http://127.0.0.1:8080/healthz"
            )
        return text or None

    def _label(self) -> tuple[str, str] | None:
        text = self._text("leader_label")
        if not text:
            return None
        if not LABEL_PATTERN.fullmatch(text):
            raise BadInput(
                f"--leader-label {text!r} is not KEY=VALUE with a valid label key and value"
            )
        key, _, value = text.partition("=")
        return key, value

    def _timing(self) -> Timing:
        ttl = self._given.get("contrib_ttl")
        if ttl is None or self._given.get("lease_duration") is not None:
            return Timing(
                lease_duration=self._seconds("lease_duration", 15.0),
                renew_interval=self._seconds("renew_interval", 2.0),
                request_timeout=self._seconds("request_timeout", 3.0),
            )
        try:
            asked = seconds(ttl)
        except BadInput as error:
            raise BadInput(f"--ttl {error}") from error
        duration = max(float(math.ceil(asked)), MIN_LEASE_DURATION)
        if duration != asked:
            self._warnings.append(f"--ttl {ttl} was raised to {duration:g}s")
        # Contrib's short leases leave no room for our defaults: the same order, scaled down.
        renew = min(2.0, max(1.0, duration / 5))
        timeout = min(3.0, 0.9 * (duration * 0.95 - renew - MARGIN))
        return Timing(
            lease_duration=duration,
            renew_interval=self._seconds("renew_interval", renew),
            request_timeout=self._seconds("request_timeout", timeout),
        )

    def _namespace(self, folder: Path) -> str:
        """ "" where only the kubeconfig's context can tell."""
        named = self._text("namespace", contrib="election_namespace")
        namespace = named or self._pod_namespace(folder)
        if not namespace and not self._text("kubeconfig"):
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
        return file.read_text().strip() if file.is_file() else ""

    def _server(self, kubeconfig: str | None) -> str | None:
        server = self._url("server")
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


def _flag_name(name: str) -> str:
    return "--" + name.replace("_", "-")
