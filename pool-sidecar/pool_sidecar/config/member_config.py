"""The flags of the member, with env twins, checked once, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.combinations import Excludes, refuse_meaningless
from edge_sidecars.runtime.cli.options import (
    Options,
    Parser,
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
    api_server_url,
    check_distinct,
    count,
    loopback,
    plain_url,
    size,
    switch,
    whole,
)
from pool_sidecar.config import DEFAULT_LISTEN, PREFIX
from pool_sidecar.core.budget import LendingLimits
from pool_sidecar.core.pool_member import MAX_ADDRESSES

# Bytes; below, a heartbeat over a lent link takes longer than kubelet's own may.
MIN_RATE: Final = 4096
# Where kubelet's kubeconfig is after kubeadm; before it, what `relay-sidecar node install` leaves
# beside it, where kubelet's own leads to the relay: a tunnel has to end at the API server.
NODE_KUBECONFIG: Final = "/etc/kubernetes/kubelet-upstream.conf:/etc/kubernetes/kubelet.conf"


loopback_url = plain_url("it is", like="http://127.0.0.1:10550")


def lan_address(text: str) -> str:
    try:
        found = ip_address(text)
    except ValueError:
        found = None
    if found is None or "%" in text or found.is_unspecified or found.is_multicast:
        raise BadInput(
            f"{text!r:.80} is no address where neighbours reach this node: write it like 10.0.7.14"
        )
    return str(found)


@dataclass(frozen=True, kw_only=True)
class MemberConfig:
    """All settings of the member; durations in seconds, sizes in bytes."""

    node: str = option("NAME", "of this node; default: NODE_NAME", default="", group="this node")
    lan_addresses: tuple[str, ...] = option(
        "IP",
        "where neighbours reach this node; repeat for several; default: HOST_IP",
        lan_address,
        name="lan_address",
        is_repeated=True,
    )
    lan_port: int = setting("10555", "the same on all nodes of a pool; default 10555", whole)
    data_dir: Path = option(
        "DIR",
        "for this node's key and the token; default {default}",
        Path,
        default="/var/lib/pool-sidecar",
    )
    lease_file: Path | None = option(
        "FILE", "the name of the pool's Lease is written there, for the elector", Path
    )
    node_kubeconfig: Path = option(
        "FILE[:FILE]",
        "kubelet's own, the first that there is; default {default}",
        Path,
        default=NODE_KUBECONFIG,
        group="API server",
    )
    # None: the kubeconfig's.
    server: str | None = option("URL", "overrides the address in the kubeconfig", api_server_url)
    relay: str = option(
        "URL",
        "the relay of this node, for the directory; default {default}",
        loopback_url,
        default="http://127.0.0.1:10550",
        group="on this node",
    )
    relay_token_file: Path | None = option(
        "FILE", "a bearer token for the relay, which --access caller needs", Path
    )
    relay_status: str = option(
        "URL",
        "where the relay says whether the own link is up; default {default}",
        loopback_url,
        default="http://127.0.0.1:10551",
    )
    relay_pool: Address = option(
        "HOST:PORT",
        "the --pool-listen of the relay of this node, which peers may read; default {default}",
        loopback,
        default="127.0.0.1:10552",
    )
    kubelet: str = option(
        "URL",
        "kubelet's healthz server; default {default}",
        loopback_url,
        default="http://127.0.0.1:10248",
    )
    elector: str | None = option(
        "URL", "the elector of this node, where it may lead; default: none", loopback_url
    )
    lend: bool = option(
        "true|false",
        "pass on bytes of neighbours to the API server; default true",
        switch,
        default="true",
        group="lending",
    )
    lend_rate: int = setting("64Ki", "bytes a second for each borrower", size)
    lend_burst: int = setting("1Mi", "bytes at once for each borrower", size)
    lend_connections: int = setting("64", "at a time for each borrower", count)
    lend_all_connections: int = setting("256", "at a time for all borrowers", count)
    listen: Address = option(
        "HOST:PORT",
        "/sources, /status, /metrics and probes; default {default}",
        loopback,
        default=DEFAULT_LISTEN,
        group="this process",
    )
    proxy_listen: Address = option(
        "HOST:PORT",
        "CONNECT over a lent link, for processes of this node; default {default}",
        loopback,
        default="127.0.0.1:10554",
    )
    # None: in the data directory.
    token_file: Path | None = option(
        "FILE", "what /sources and CONNECT ask for; made if missing; default DATA_DIR/token", Path
    )
    log_format: str = log_format_option(group="logs")
    log_level: str = log_level_option()
    proxies: ProxyVariables = NO_PROXIES
    # Where pods find the API server: host and port, by which a relay in this pod calls it.
    in_cluster: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Raises `BadInput`."""
        if not self.node:
            raise BadInput("--node is missing: name this node, or set NODE_NAME (downward API)")
        if not self.lan_addresses:
            raise BadInput(
                "--lan-address is missing: name an address of this node, or set HOST_IP "
                "(downward API, status.hostIP)"
            )
        if len(self.lan_addresses) > MAX_ADDRESSES:
            raise BadInput(
                f"--lan-address {len(self.lan_addresses)} times: at most {MAX_ADDRESSES}"
            )
        if not 0 < self.lan_port <= 65535:
            raise BadInput(f"--lan-port {self.lan_port}: neighbours need a port from 1 to 65535")
        check_distinct(
            {
                "--listen": self.listen,
                "--proxy-listen": self.proxy_listen,
                **{
                    f"--lan-address {it} with --lan-port": Address(it, self.lan_port)
                    for it in self.lan_addresses
                },
            }
        )
        if self.lend_rate < MIN_RATE:
            raise BadInput(
                f"--lend-rate {self.lend_rate} is too little for a heartbeat: at least {MIN_RATE}, "
                "or --lend false"
            )
        if self.lend_burst < self.lend_rate:
            raise BadInput(
                f"--lend-burst {self.lend_burst} must be at least --lend-rate {self.lend_rate}"
            )
        if not 0 < self.lend_connections <= self.lend_all_connections:
            raise BadInput(
                f"--lend-connections {self.lend_connections} must be at least 1 and at most "
                f"--lend-all-connections {self.lend_all_connections}"
            )

    @property
    def limits(self) -> LendingLimits:
        return LendingLimits(
            self.lend_rate, self.lend_burst, self.lend_connections, self.lend_all_connections
        )

    @property
    def token_path(self) -> Path:
        return self.token_file or self.data_dir / "token"


# Of no use without --lend.
_LENDING: Final = ("lend_rate", "lend_burst", "lend_connections", "lend_all_connections")
_COMBINATIONS: Final = (Excludes(_LENDING, "lend", "false", "nothing is lent"),)


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    return command_line(
        MemberConfig,
        prog="pool-sidecar",
        example="pool-sidecar --node n1 --lan-address 10.0.7.14",
        manual="reference/pool",
        description="One node of a pool: lends its link to neighbours that are cut off, borrows "
        "theirs while it is, and keeps this node's heartbeat meanwhile.",
        epilog="Sub-commands: `pool-sidecar run` (default), `pool-sidecar controller` (in the "
        "cloud), `pool-sidecar status` (role, link, lender, verdicts), `pool-sidecar livez` (exit "
        f"0 only if it answers). Every flag has an env twin, {PREFIX}<FLAG>; one that may be "
        "repeated takes several values with spaces between.",
    )


def _in_cluster(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """As kubelet tells each pod; nothing outside of one."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "").lower()
    return ((host, environ.get("KUBERNETES_SERVICE_PORT", "443")),) if host else ()


def load(arguments: Sequence[str], environ: Mapping[str, str]) -> MemberConfig:
    """Raises `BadInput`."""
    given = vars(parser().parse_args(arguments))
    others = {"node": "NODE_NAME", "lan_address": "HOST_IP"}
    options = Options(given, environ, prefix=PREFIX, others=others)
    with options.naming_variables():
        values = option_values(MemberConfig, options)
        config = MemberConfig(
            **values, proxies=proxy_variables(environ), in_cluster=_in_cluster(environ)
        )
        refuse_meaningless(MemberConfig, options, _COMBINATIONS)
    return config
