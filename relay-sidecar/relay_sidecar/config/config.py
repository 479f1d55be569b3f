"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. No option is ignored: what has no meaning beside another one is refused. A
flag wins over its twin `RELAY_<FLAG>`; unknown `RELAY_*` are ignored, because a Service named relay
injects some; what looks like a mistyped one is a warning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edge_sidecars.runtime.cli.combinations import Excludes, Needs, refuse_meaningless
from edge_sidecars.runtime.cli.options import (
    SERVICE_ACCOUNT_DIR,
    Options,
    Parser,
    api_server,
    command_line,
    flag,
    log_format_option,
    log_level_option,
    one_of,
    option,
    option_values,
    pod_namespace,
    setting,
    switch_option,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables, proxy_variables
from edge_sidecars.runtime.cli.values import (
    Address,
    BadInput,
    address,
    api_server_url,
    check_distinct,
    count,
    host_name,
    loopback,
    seconds,
    size,
    url_like,
)
from edge_sidecars.runtime.formats.rfc1123 import is_label
from relay_sidecar.config import DEFAULT_LISTEN, DEFAULT_STATUS_LISTEN, PREFIX
from relay_sidecar.config.preload import (
    PoolResource,
    Preload,
    chosen,
    parse_pool_resource,
    parse_preload,
)

MEMORY = "memory"
# Seconds; a faster probe is load and no news, a faster time-out is a round trip on a bad link.
MIN_TIME = 0.1
# Seconds; a client on a busy machine is silent for as long.
MIN_WRITE_TIMEOUT = 1.0
# Bytes; an event of etcd's largest object, 1.5 MiB, is two of these.
MIN_WATCH_BUFFER = 64 * 1024
# Bytes; less does not hold the discovery documents of a cluster, and a list of its pods.
MIN_BUDGET = 8 * 1024 * 1024
_CERTIFICATE = ("client_certificate", "client_key", "certificate_authority", "tls_server_name")
_POOL = ("pool_token_file", "pool_connect", "endpoint_view", "pool_listen", "pool_resource")
_CALLER = ("access_ttl", "access_offline_ttl", "client_ca_file", "kubelet_unit", "pod_listen")
_COMBINATIONS = (
    Needs(("context",), "kubeconfig"),
    Needs(_POOL, "pool"),
    Needs(_CALLER, "access", "caller"),
    Excludes(("local_token_file", "allowed_host"), "access", "caller", "each brings its own token"),
    Needs(_CERTIFICATE[1:], "client_certificate"),
    Excludes(("client_certificate",), "kubeconfig", "", "that says who we are"),
    Needs(("client_ca_file",), "tls_cert_file"),
    Needs(("client_ca_file",), "client_certificate"),
    Needs(("kubelet_unit",), "client_ca_file"),
    Needs(("pool",), "pool_token_file"),
    Needs(("tls_cert_file",), "tls_private_key_file"),
    Needs(("tls_private_key_file",), "tls_cert_file"),
    Excludes(("keep_secrets",), "data_dir", MEMORY, "nothing is kept"),
)


def _data_dir(text: str) -> Path | None:
    return None if text == MEMORY else Path(text)


def _pool_url(text: str) -> str:
    parts = urlsplit(url_like("http://127.0.0.1:10553")(text))
    if parts.scheme != "http" or not Address(parts.hostname or "", 0).is_loopback:
        raise BadInput(
            f"{text!r:.80}: the pool-sidecar of this node is asked over http on loopback, like "
            "http://127.0.0.1:10553"
        )
    return text.rstrip("/")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that the flags of `relay-sidecar` say; durations in seconds, sizes in bytes."""

    listen: Address = option(
        "HOST:PORT",
        "the Kubernetes API; default {default}",
        address,
        default=DEFAULT_LISTEN,
        group="where clients come",
    )
    pod_listen: Address | None = option(
        "HOST:PORT",
        "a second one for pods of the pod network, who bring tokens; on a link-local address",
        address,
    )
    status_listen: Address = option(
        "HOST:PORT",
        "/livez, /readyz, /metrics, /status; default {default}",
        address,
        default=DEFAULT_STATUS_LISTEN,
    )
    tls_cert_file: Path | None = option(
        "FILE", "https on --listen, for clients that insist on it", Path
    )
    tls_private_key_file: Path | None = option(
        "FILE", "of --tls-cert-file; both are read again at a change", Path
    )
    server: str | None = option(
        "URL",
        "an API server, or another relay; default: the pod's own",
        api_server_url,
        group="upstream",
    )
    kubeconfig: Path | None = option("FILE[:FILE]", "default: the pod's service account", Path)
    # None: the kubeconfig's current one.
    context: str | None = option("NAME", "of the kubeconfig; default: its current one")
    service_account_dir: Path = option(
        "DIR", "default {default}", Path, default=SERVICE_ACCOUNT_DIR
    )
    client_certificate: Path | None = option(
        "FILE",
        "with --server: who we are there, like kubelet's kubelet-client-current.pem; read again at "
        "a change",
        Path,
    )
    client_key: Path | None = option(
        "FILE", "of --client-certificate; default: the same file", Path
    )
    certificate_authority: Path | None = option(
        "FILE", "who signs the certificate of --server; default: the system's", Path
    )
    tls_server_name: str | None = option(
        "NAME",
        "with --client-certificate: which the certificate of --server has; default: its host",
        host_name,
    )
    request_timeout: float = setting("5s", "hard limit of one request of the relay's own", seconds)
    read_timeout: float = setting(
        "1s", "then a read that was asked upstream is answered from here", seconds
    )
    probe_interval: float = setting("1s", "between two looks at the link", seconds)
    probe_timeout: float = setting(
        "10s", "a probe's deadline at most, on a link whose round trips are long", seconds
    )
    pool: str | None = option(
        "URL",
        "the pool-sidecar of this node, like http://127.0.0.1:10553: upstream is reached over a "
        "neighbour's link while the own one is cut; default: none",
        _pool_url,
        group="pool",
    )
    pool_token_file: Path | None = option(
        "FILE", "with --pool: the token of its loopback ports; read again at a change", Path
    )
    pool_connect: Address = option(
        "HOST:PORT",
        "with --pool: where it makes connections over a neighbour; default {default}",
        loopback,
        default="127.0.0.1:10554",
    )
    endpoint_view: Address | None = option(
        "HOST:PORT",
        "with --pool: the same API for kube-proxy and CoreDNS of this node, like 127.0.0.1:10556, "
        "where endpoints of nodes that the pool-sidecar finds silent are not ready; default: none",
        loopback,
    )
    pool_listen: Address | None = option(
        "HOST:PORT",
        "with --pool: where its peers may read the pool-scoped streams, over it; default: nowhere",
        loopback,
    )
    pool_resources: tuple[PoolResource, ...] = option(
        "RESOURCE[?QUERY]|none",
        "with --pool: what is the same for all of its members, and comes from the member that "
        "leads while there is one; may be repeated; default: services and "
        "endpointslices.discovery.k8s.io",
        parse_pool_resource,
        name="pool_resource",
        is_repeated=True,
    )
    # None: memory.
    data_dir: Path | None = option(
        "DIR|memory",
        "default {default}; memory: nothing outlives us",
        _data_dir,
        default="/var/lib/relay-sidecar",
        group="what is kept",
    )
    keep_secrets: Path | None = option(
        "KEYFILE",
        "Secrets that are watched by name, and a node's tokens, outlast a restart: sealed with "
        "this key of 32 bytes",
        Path,
    )
    reads_upstream: bool = one_of(
        "upstream|cache",
        "reads without resourceVersion, while the link is up: asked upstream, or answered here",
        true="upstream",
        name="reads",
    )
    preload: tuple[Preload, ...] = option(
        "RESOURCE[?QUERY]",
        "kept from the start, like pods?fieldSelector=spec.nodeName=n1, deployments.apps or "
        "widgets.v1.example.com?namespace=default; may be repeated",
        parse_preload,
        is_repeated=True,
    )
    idle_timeout: float = setting(
        "10m", "a stream that nobody reads is closed, its data stays", seconds
    )
    retain: float = setting("7d", "for so long after anybody asked for it", seconds)
    # None: a share of what the cgroup allows.
    memory_budget: int | None = option(
        "BYTES",
        "of objects, windows and answers that are kept; default: three fifths of the cgroup's "
        "limit of memory, 128Mi without one",
        size,
    )
    max_streams: int = setting("256", "lists and watches of upstream at a time", count)
    max_objects: int = setting("100000", "in all streams together", count)
    max_watchers: int = setting("1000", "at a time", count)
    write_timeout: float = setting(
        "15s", "a client that reads nothing of its answer for so long is cut off", seconds
    )
    watch_buffer: int = setting(
        "4Mi", "what one watcher may leave unread before it is cut off", size
    )
    asks_callers: bool = one_of(
        "own|caller",
        "own: everybody acts with the relay's rights, on loopback only; caller: each with "
        "those of the token that it brings",
        true="caller",
        name="access",
        group="access",
    )
    access_ttl: float = setting("1m", "how long a decision about a caller stands", seconds)
    access_offline_ttl: float = setting(
        "24h", "the same while nobody can be asked, in running time", seconds
    )
    client_ca_file: Path | None = option(
        "FILE",
        "with caller: clients of --listen that show the certificate of --client-certificate's node "
        "act with the relay's rights",
        Path,
    )
    kubelet_unit: str | None = option(
        "UNIT",
        "with --client-ca-file: while upstream is out of reach, the main process of this unit of "
        "systemd acts with the relay's rights without a certificate; kubelet shows none that has "
        "ended",
    )
    local_token_file: Path | None = option(
        "FILE", "with own: the bearer token that callers must bring", Path
    )
    allowed_hosts: tuple[str, ...] = option(
        "NAME",
        "with own: another name that clients call us; may be repeated",
        host_name,
        name="allowed_host",
        is_repeated=True,
    )
    log_refusals: bool = switch_option(
        "a line for what the relay itself refuses: each kind of request once in 10 s",
        group="logging",
    )
    log_format: str = log_format_option()
    log_level: str = log_level_option()
    namespace: str  # the pod's own, "" where unknown
    otlp_endpoint: str | None
    proxies: ProxyVariables = NO_PROXIES

    def __post_init__(self) -> None:
        self._check_limits()
        self._check_listeners()
        chosen(self.pool_resources)
        is_https = (self.server or "").startswith("https:")
        if self.client_certificate is not None and not is_https:
            raise BadInput(
                f"--client-certificate {self.client_certificate} needs TLS: name an https --server"
            )
        if self.asks_callers:
            self._check_tokens_stay_secret()
        if self.server is not None:
            self.check_upstream(self.server)
        if self.namespace and not is_label(self.namespace):
            raise BadInput(
                f"{self.namespace!r:.80} is not a namespace: check POD_NAMESPACE and the file in "
                "--service-account-dir"
            )

    @property
    def is_tls(self) -> bool:
        return self.tls_cert_file is not None

    @property
    def shared(self) -> tuple[Preload, ...]:
        """What comes from the pool."""
        return () if self.pool is None else chosen(self.pool_resources)

    @property
    def warnings(self) -> tuple[str, ...]:
        wants_token = self.asks_callers or self.local_token_file is not None
        if wants_token and not self.is_tls:
            # client-go, tools/clientcmd/client_config.go: "only try to read the auth information
            # if we are secure".
            return ("Go clients send no token of a kubeconfig over http: add --tls-cert-file",)
        return ()

    def _check_limits(self) -> None:
        times = ("request_timeout", "read_timeout", "probe_interval", "probe_timeout", "access_ttl")
        for name in times:
            value = getattr(self, name)
            if value < MIN_TIME:
                raise BadInput(f"{flag(name)} {value:g}s must be at least {MIN_TIME:g}s")
        if self.memory_budget is not None and self.memory_budget < MIN_BUDGET:
            raise BadInput(
                f"--memory-budget {self.memory_budget} must be at least {MIN_BUDGET // 2**20}Mi"
            )
        if self.write_timeout < MIN_WRITE_TIMEOUT:
            raise BadInput(
                f"--write-timeout {self.write_timeout:g}s must be at least {MIN_WRITE_TIMEOUT:g}s"
            )
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
        pods = self.pod_listen or self.listen
        for name, it in (
            ("--listen", self.listen),
            ("--pod-listen", pods),
            ("--status-listen", self.status_listen),
            ("--pool-listen", self.pool_listen or self.listen),
        ):
            if it.path:
                raise BadInput(f"{name} {it}: clients of Kubernetes need host:port")
        check_distinct(
            {
                "--listen": self.listen,
                "--status-listen": self.status_listen,
                "--pod-listen": self.pod_listen,
                "--pool-listen": self.pool_listen,
                "--endpoint-view": self.endpoint_view,
            }
        )
        if not self.asks_callers and not self.listen.is_loopback:
            raise BadInput(
                f"--listen {self.listen} is open to others, whom --access own would lend the "
                "relay's rights: use --access caller, or listen on 127.0.0.1"
            )

    def _check_tokens_stay_secret(self) -> None:
        for name, it in (("--listen", self.listen), ("--pod-listen", self.pod_listen)):
            if it is not None and not it.is_loopback and not self.is_tls:
                raise BadInput(
                    f"{name} {it} without TLS would let callers send their tokens in the clear: "
                    "add --tls-cert-file, or listen on 127.0.0.1"
                )

    def check_upstream(self, server: str) -> None:
        """`server`: the kubeconfig's, where no flag names one. Raises `BadInput`."""
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
        for it in (self.listen, self.pod_listen, self.endpoint_view):
            if it is None or it.port != port:
                continue
            if it.host == host or (it.is_loopback and Address(host, 0).is_loopback):
                raise BadInput(
                    f"upstream {server} is this relay itself: name the API server by --server, or "
                    "a kubeconfig that leads to it"
                )
        if self.pool is not None and parts.scheme != "https":
            raise BadInput(
                f"--pool {self.pool}: a neighbour would see what is sent to {server}; name an "
                "https --server"
            )
        is_clear = server.startswith("http:") and not Address(host, 0).is_loopback
        if self.asks_callers and is_clear:
            raise BadInput(
                f"--server {server} would be sent the callers' tokens in the clear: use https"
            )


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    return command_line(
        Config,
        prog="relay-sidecar",
        example="relay-sidecar --kubeconfig ~/.kube/config --data-dir memory --preload pods",
        manual="reference/relay",
        description="A Kubernetes API endpoint on localhost that lists and watches each thing "
        "once, keeps it, and goes on answering when the link is cut.",
        epilog="Sub-commands: `relay-sidecar run` (default), `relay-sidecar in-cluster` (leads the "
        "clients of a pod to its node's relay), `relay-sidecar kubeconfig` (prints one that points "
        "here), `relay-sidecar node` (the relay as part of a node), `relay-sidecar rbac` (the "
        "Roles to apply), `relay-sidecar status` (streams, watchers, link), `relay-sidecar livez` "
        "(exit 0 only if it answers). Every flag has an env twin, "
        f"{PREFIX}<FLAG>; one that may be repeated takes several values with spaces between.",
    )


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Raises `BadInput`."""
    options = Options(vars(parser().parse_args(arguments)), environ, prefix=PREFIX)
    with options.naming_variables():
        return _config(options, environ)


def _config(options: Options, environ: Mapping[str, str]) -> Config:
    refuse_meaningless(Config, options, _COMBINATIONS)
    values = option_values(Config, options)
    if not (values["server"] or values["kubeconfig"]):
        values["server"] = api_server(environ, remedy="name a --kubeconfig or a --server")
    return Config(
        **values,
        namespace=pod_namespace(environ, values["service_account_dir"]),
        otlp_endpoint=environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        proxies=proxy_variables(environ),
    )
