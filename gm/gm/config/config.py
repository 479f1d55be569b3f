"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. No option is ignored: what has no meaning beside another one is refused. A
flag wins over its twin `GM_<FLAG>`; unknown `GM_*` are ignored, because a Service named gm injects
some; what looks like a mistyped one is a warning.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from edge_sidecars.runtime.cli.combinations import Excludes, refuse_meaningless
from edge_sidecars.runtime.cli.options import (
    Options,
    Parser,
    command_line,
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
    check_distinct,
    count,
    plain_url,
    seconds,
    url_like,
    whole,
)
from edge_sidecars.runtime.formats.rfc1123 import is_label, is_subdomain
from gm.config import DEFAULT_LISTEN, PREFIX
from gm.core.kind import DEFAULT_LC_SERVER

OFF = "off"
# relay-sidecar's --listen and --status-listen, elector-sidecar's --listen.
DEFAULT_API = "http://127.0.0.1:10550"
DEFAULT_RELAY_STATUS = "http://127.0.0.1:10551"
DEFAULT_ELECTOR = "http://127.0.0.1:4040"
# Sedna's.
DEFAULT_KB_SERVER = "http://localhost:9020"
# Where kubelet puts the token and the namespace of a pod.
SERVICE_ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The account of LCs in the manifests.
LC_ACCOUNT = "lc"
# Where the cluster's own workloads are: who may create a job may run any pod beside them.
KUBE_SYSTEM = "kube-system"
# Seconds; a round trip to the API server and its etcd takes some milliseconds.
MIN_REQUEST_TIMEOUT = 0.1
MAX_CONCURRENCY = 256
# Of limits.md, section 4; each costs a descriptor and some 100 KiB.
DEFAULT_MAX_LCS = 2048
_TLS = ("tls_cert", "tls_key", "client_ca")
_HUB = (
    *("stream_listen", "sedna_listen", *_TLS, "review_tokens", "lc_service_account"),
    *("trust_any_lc", "max_lcs"),
)
_COMBINATIONS = (Excludes(_HUB, "mode", "relay", "no LC comes to GM"),)


class Mode(Enum):
    """How LCs are reached; `LeadershipMode` says which of them reconciles."""

    ACTIVE_STANDBY = "active-standby"
    ACTIVE_ACTIVE = "active-active"
    RELAY = "relay"


class LeadershipMode(Enum):
    """Who reconciles."""

    LEADER = "leader"
    SHARDS = "shards"


def _sidecar(default: str, *, off: str | None = None) -> Callable[[str], str | None]:
    """Parses a sidecar's address."""
    parse = plain_url("sidecars are", like=default)
    return lambda text: None if text == off else parse(text)


def service_account(text: str) -> str:
    """`namespace:name`. Raises `BadInput`."""
    namespace, _, name = text.partition(":")
    if not (is_label(namespace) and is_subdomain(name)):
        raise BadInput(f"{text!r:.80} is no service account: write NAMESPACE:NAME, like sedna:lc")
    return text


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of `gm`; durations in seconds."""

    mode: Mode = one_of(
        "active-standby|active-active|relay",
        "LCs talk to the leader, to any GM, or to no GM but their relays; default active-standby",
        group="how GM and its LCs work together",
    )
    leadership: LeadershipMode = one_of(
        "leader|shards",
        "the leader decides about all objects, or each GM about those of its elector's shards; "
        "default leader",
    )
    # None: all.
    namespaces: tuple[str, ...] = option(
        "NAME",
        "look after this one only; may be repeated; default all",
        name="namespace",
        is_repeated=True,
    )
    allow_kube_system: bool = switch_option(
        "make workers for jobs in kube-system too; default false"
    )
    api: str = option(
        "URL",
        "the relay: the Kubernetes API; default {default}",
        _sidecar(DEFAULT_API),
        default=DEFAULT_API,
        group="the sidecars of this pod",
    )
    # None: the link is taken to be up.
    relay_status: str | None = option(
        "URL|off",
        "tells whether the link is up; default {default}; off: always",
        _sidecar(DEFAULT_RELAY_STATUS, off=OFF),
        default=DEFAULT_RELAY_STATUS,
    )
    elector: str = option(
        "URL", "who leads; default {default}", _sidecar(DEFAULT_ELECTOR), default=DEFAULT_ELECTOR
    )
    # Sedna's port, so that its Service and its LCs' GM_ADDRESS need no change. None: no hub.
    stream_listen: Address | None = option(
        "HOST:PORT", "gRPC; default {default}", address, default=":9000", group="where LCs come"
    )
    sedna_listen: Address | None = option(
        "HOST:PORT", "websocket, for Sedna's own LCs; default off", address
    )
    tls_cert: Path | None = option("FILE", "TLS on --stream-listen, with --tls-key", Path)
    tls_key: Path | None = option("FILE", "of --tls-cert", Path)
    client_ca: Path | None = option(
        "FILE", "LCs must bring a certificate that it signed, with their node", Path
    )
    review_tokens: bool = switch_option(
        "LCs must bring a token that the API server binds to their node; default false"
    )
    # None: without --review-tokens.
    lc_service_account: str | None = option(
        "NAMESPACE:NAME",
        "whose tokens these are; default lc in GM's own namespace",
        service_account,
    )
    trust_any_lc: bool = switch_option(
        "take LCs of other machines without credentials too, as any node; default false"
    )
    max_lcs: int = setting(
        str(DEFAULT_MAX_LCS), "LCs, and connections of each of the two addresses, at a time", count
    )
    # What Sedna's GM tells its workers (localController.server, knowledgeBaseServer.server).
    lc_server: str = option(
        "URL",
        "LC_SERVER, before the capability of each worker; default {default}",
        url_like(DEFAULT_LC_SERVER),
        default=DEFAULT_LC_SERVER,
        group="what workers are told",
    )
    kb_server: str = option(
        "URL",
        "KB_SERVER; default {default}",
        url_like(DEFAULT_KB_SERVER),
        default=DEFAULT_KB_SERVER,
    )
    listen: Address = option(
        "HOST:PORT",
        "/livez, /readyz, /status, /metrics; default {default}",
        address,
        default=DEFAULT_LISTEN,
        group="this process",
    )
    concurrency: int = setting(
        "32", "so many objects are worked on at a time, with shards by all GMs together", whole
    )
    request_timeout: float = setting(
        "5s",
        "hard limit of one API request; a write is begun only while the lead is proven for longer",
        seconds,
    )
    log_format: str = log_format_option()
    log_level: str = log_level_option()
    proxies: ProxyVariables = NO_PROXIES

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

        if self.lc_service_account is not None and not self.review_tokens:
            raise BadInput(
                f"--lc-service-account {self.lc_service_account} needs --review-tokens true: add "
                "it, or drop this one"
            )
        if self.review_tokens and self.lc_service_account is None:
            raise BadInput(
                "--review-tokens true: this is no pod, so whose tokens LCs have is not known: name "
                "--lc-service-account, like sedna:lc"
            )
        if self.trust_any_lc and self._asks_for_proof:
            proof = (
                "--review-tokens true" if self.review_tokens else f"--client-ca {self.client_ca}"
            )
            raise BadInput(f"--trust-any-lc true and {proof} exclude each other: drop one")

    @property
    def _asks_for_proof(self) -> bool:
        return self.client_ca is not None or self.review_tokens

    @property
    def refused_namespaces(self) -> frozenset[str]:
        """No worker is made there."""
        return frozenset() if self.allow_kube_system else frozenset({KUBE_SYSTEM})

    def _check_namespaces(self) -> None:
        for namespace in self.namespaces:
            if not is_label(namespace):
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
        warnings = []
        if self.stream_listen is not None and not self._asks_for_proof:
            warnings.append(
                "--trust-any-lc true: any LC is believed to be any node"
                if self.trust_any_lc
                else "without --client-ca or --review-tokens only LCs of this machine are served, "
                "each as the node that it names"
            )
        if self.sedna_listen is not None:
            warnings.append("--sedna-listen has no authentication: whoever reaches it is believed")
        return tuple(warnings)

    def _check_listeners(self) -> None:
        named = {
            "--listen": self.listen,
            "--stream-listen": self.stream_listen,
            "--sedna-listen": self.sedna_listen,
        }
        for name, it in named.items():
            if it is not None and it.path:
                raise BadInput(f"{name} {it}: LCs, kubelet and Prometheus need host:port")
        check_distinct(named)


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    return command_line(
        Config,
        prog="sedna-gm",
        example="sedna-gm --mode active-standby --namespace default",
        manual="reference/gm",
        description="Sedna's Global Manager: turns datasets, models, jobs and services into pods "
        "and statuses, together with Local Controllers on the nodes.",
        epilog="Sub-commands: `sedna-gm run` (default), `sedna-gm status` (who leads, nodes, "
        "backlog, jobs), `sedna-gm livez` (exit 0 only if it answers). Every flag has an env twin, "
        f"{PREFIX}<FLAG>; one that may be repeated takes several values with spaces between.",
    )


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Raises `BadInput`."""
    options = Options(vars(parser().parse_args(arguments)), environ, prefix=PREFIX)
    with options.naming_variables():
        return _config(options, environ)


def _config(options: Options, environ: Mapping[str, str]) -> Config:
    mode = Mode(options.choice("mode", *(each.value for each in Mode)))
    refuse_meaningless(Config, options, _COMBINATIONS)
    leadership = LeadershipMode(
        options.choice("leadership", *(each.value for each in LeadershipMode))
    )
    values = option_values(Config, options) | {"mode": mode, "leadership": leadership}
    if mode is Mode.RELAY:
        values["stream_listen"] = None
    values["namespaces"] = tuple(dict.fromkeys(values["namespaces"]))
    if values["review_tokens"] and values["lc_service_account"] is None:
        own = pod_namespace(environ, SERVICE_ACCOUNT_DIR, remedy="name --lc-service-account")
        values["lc_service_account"] = f"{own}:{LC_ACCOUNT}" if own else None
    return Config(**values, proxies=proxy_variables(environ))
