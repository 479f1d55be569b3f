"""The flags of `pool-sidecar controller`, with env twins, checked once, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.options import (
    SERVICE_ACCOUNT_DIR,
    Options,
    Parser,
    api_server,
    command_line,
    log_format_option,
    log_level_option,
    option,
    option_values,
    setting,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables, proxy_variables
from edge_sidecars.runtime.cli.values import (
    Address,
    BadInput,
    address,
    api_server_url,
    plain_url,
    seconds,
    switch,
    whole,
)
from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from pool_sidecar.core.controller.taints import MaxDead

CONTROLLER_PREFIX: Final = "POOL_CONTROLLER_"
DEFAULT_CONTROLLER_LISTEN: Final = "127.0.0.1:10556"
# elector-sidecar's --listen.
DEFAULT_ELECTOR: Final = "http://127.0.0.1:4040"
# Seconds; a round trip to the API server and its etcd takes some milliseconds.
MIN_REQUEST_TIMEOUT: Final = 0.1
# k8s.io/apimachinery: a qualified name is a prefix of at most 253 characters and a name of 63.
MAX_LABEL: Final = 317


def max_dead(text: str) -> MaxDead:
    """`1/3` of the pool, or so many nodes."""
    over, slash, under = text.partition("/")
    if not slash:
        count = whole(text)
        if not count:
            raise BadInput(f"{text}: a pool may have one dead node at least; write 1 or more")
        return MaxDead(None, count)
    numbers = whole(over), whole(under)
    if not 0 < numbers[0] <= numbers[1]:
        raise BadInput(f"{text!r:.80} is no share: write it like 1/3, or a number of nodes")
    return MaxDead(Fraction(*numbers))


def label_key(text: str) -> str:
    name = text.rpartition("/")[2]
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(" ,=!()\"'\\")
    if not (name and is_plain and len(text) <= MAX_LABEL and text.count("/") <= 1):
        raise BadInput(f"{text!r:.80} is no key of a label: write it like example.com/pool")
    return text


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """All settings of `pool-sidecar controller`; durations in seconds."""

    pool_label: str = option(
        "KEY",
        "the label of Nodes that names their pool; default {default}",
        label_key,
        default=DEFAULT_POOL_LABEL,
        group="pools",
    )
    max_dead: MaxDead = option(
        "SHARE|NUMBER",
        "so much of a pool may be dead at once, one node at least; default {default}",
        max_dead,
        default="1/3",
    )
    taint_cut: bool = option(
        "on|off", "no new pods for nodes that borrow their link; default on", switch, default="on"
    )
    elector: str = option(
        "URL",
        "who leads; default {default}",
        plain_url("the elector is", like=DEFAULT_ELECTOR),
        default=DEFAULT_ELECTOR,
        group="this process",
    )
    listen: Address = option(
        "HOST:PORT",
        "/livez, /readyz, /status, /metrics; default {default}",
        address,
        default=DEFAULT_CONTROLLER_LISTEN,
    )
    request_timeout: float = setting("2s", "for one request to the API server", seconds)
    # None: the pod's service account.
    kubeconfig: Path | None = option(
        "FILE[:FILE]", "default: the pod's service account", Path, group="API server"
    )
    # None: the pod's, or the kubeconfig's.
    server: str | None = option("URL", "overrides the address", api_server_url)
    service_account_dir: Path = option(
        "DIR", "of the pod; default {default}", Path, default=SERVICE_ACCOUNT_DIR
    )
    log_format: str = log_format_option(group="logs")
    log_level: str = log_level_option()
    proxies: ProxyVariables = NO_PROXIES

    def __post_init__(self) -> None:
        if self.request_timeout < MIN_REQUEST_TIMEOUT:
            raise BadInput(
                f"--request-timeout {self.request_timeout:g}s is too short for any API server: "
                f"{MIN_REQUEST_TIMEOUT:g}s at least"
            )
        if self.listen.path:
            raise BadInput(f"--listen {self.listen}: kubelet and Prometheus need host:port")


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    return command_line(
        ControllerConfig,
        prog="pool-sidecar controller",
        example="pool-sidecar controller --kubeconfig ~/.kube/config --max-dead 1/3",
        manual="reference/pool-controller",
        description="Keeps the PoolMembers of Nodes that have a pool's label, and taints the nodes "
        "that are cut off or, by the witness of their pool, dead. Runs beside an elector-sidecar.",
        epilog=f"Every flag has an env twin, {CONTROLLER_PREFIX}<FLAG>.",
    )


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> ControllerConfig:
    """Raises `BadInput`."""
    given = vars(parser().parse_args(arguments))
    options = Options(given, environ, prefix=CONTROLLER_PREFIX)
    with options.naming_variables():
        values = option_values(ControllerConfig, options)
        if values["server"] is None and values["kubeconfig"] is None:
            values["server"] = api_server(environ, remedy="name a --kubeconfig or a --server")
        return ControllerConfig(**values, proxies=proxy_variables(environ))
