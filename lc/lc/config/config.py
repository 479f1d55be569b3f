"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. A flag wins over its twin `LC_<FLAG>`, and that over Sedna's own variable. No
option is ignored: what has no meaning in a mode is refused, but for Sedna's GM_ADDRESS, which its
manifests set in any case.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_sidecars.runtime.flags import Options, flag
from edge_sidecars.runtime.values import MAX_PORT, Address, BadInput, address, seconds, url, whole
from lc.config.flags import (
    DEFAULT_API,
    DEFAULT_BIND_PORT,
    DEFAULT_DATA_DIR,
    DEFAULT_RELAY_STATUS,
    DEFAULT_ROOT,
    PREFIX,
    SEDNA_TWINS,
    parser,
)

# RFC 1123 subdomain, as Kubernetes wants names of nodes.
_NODE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_NODE = 253
# RFC 1123 label, as it wants names of namespaces.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# Seconds; a shorter interval is load and no news.
MIN_INTERVAL = 1.0
MIN_REDIAL_CAP = 0.2
_STREAM_ONLY = ("gm_address", "server_ca", "tls_cert", "tls_key", "gm_token_file")
_RELAY_ONLY = ("api", "relay_status", "namespace")


@dataclass(frozen=True)
class Config:
    """Everything that `lc` is told; durations in seconds."""

    is_relay: bool  # --mode relay
    gm_addresses: tuple[Address, ...]
    server_ca: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    gm_token_file: Path | None
    redial_cap: float
    api: str
    relay_status: str
    namespace: str  # "": all
    node: str
    root: Path
    data_dir: Path
    secrets_dir: Path | None
    dataset_interval: float
    listen: Address
    node_listen: Address | None
    token_file: Path | None
    log_format: str
    log_level: str

    def __post_init__(self) -> None:
        if not _NODE.fullmatch(self.node) or len(self.node) > MAX_NODE:
            raise BadInput(f"--node {self.node!r:.80} is not a node's name: set NODENAME")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise BadInput(f"--namespace {self.namespace!r:.80} is not a namespace")
        if not self.is_relay and not self.gm_addresses:
            raise BadInput("--gm-address is missing: name GM's stream, like gm.sedna:9000")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise BadInput("--tls-cert and --tls-key need each other: name both")
        for name in ("tls_cert", "gm_token_file"):
            value = getattr(self, name)
            if value is not None and self.server_ca is None:
                raise BadInput(f"{flag(name)} {value} needs --server-ca: name GM's CA")
        if self.dataset_interval < MIN_INTERVAL:
            raise BadInput(
                f"--dataset-interval {self.dataset_interval:g}s must be at least {MIN_INTERVAL:g}s"
            )
        if self.redial_cap < MIN_REDIAL_CAP:
            raise BadInput(
                f"--redial-cap {self.redial_cap:g}s must be at least {MIN_REDIAL_CAP:g}s"
            )
        self._check_node_listen()

    def _check_node_listen(self) -> None:
        if self.node_listen is None:
            if self.token_file is not None:
                raise BadInput(
                    f"--token-file {self.token_file} is for --node-listen, which is missing"
                )
            return
        if self.token_file is None:
            raise BadInput(
                f"--node-listen {self.node_listen} would let anybody who reaches the node report "
                "for its workers: name a --token-file"
            )
        if self.node_listen.path:
            raise BadInput(f"--node-listen {self.node_listen}: name an address of this node")


def load(arguments: Sequence[str], environ: Mapping[str, str], *, hostname: str) -> Config:
    """Raises `BadInput`."""
    given = vars(parser().parse_args(arguments))
    options = Options(given, _with_sednas(environ), prefix=PREFIX)
    is_relay = options.choice("mode", "stream", "relay") == "relay"
    own = Options(given, environ, prefix=PREFIX)
    for told in own.among(*(_STREAM_ONLY if is_relay else _RELAY_ONLY)):
        mode = "relay" if is_relay else "stream"
        raise BadInput(f"{told} means nothing with --mode {mode}: drop one of the two")
    root = _root(options, environ)
    node_listen = options.parsed("node_listen", address, None)
    return Config(
        is_relay=is_relay,
        gm_addresses=() if is_relay else options.parsed("gm_address", _addresses, ()),
        server_ca=_path(options, "server_ca"),
        tls_cert=_path(options, "tls_cert"),
        tls_key=_path(options, "tls_key"),
        gm_token_file=_path(options, "gm_token_file"),
        redial_cap=options.parsed("redial_cap", seconds, 8.0),
        api=options.parsed("api", url, DEFAULT_API).rstrip("/"),
        relay_status=options.parsed("relay_status", url, DEFAULT_RELAY_STATUS).rstrip("/"),
        namespace=options.text("namespace"),
        node=options.text("node") or environ.get("HOSTNAME") or hostname,
        root=root,
        data_dir=_path(options, "data_dir") or root / DEFAULT_DATA_DIR,
        secrets_dir=_path(options, "secrets_dir"),
        dataset_interval=options.parsed("dataset_interval", seconds, 60.0),
        listen=Address("127.0.0.1", options.parsed("bind_port", _port, DEFAULT_BIND_PORT)),
        node_listen=node_listen,
        token_file=_path(options, "token_file"),
        log_format=options.choice("log_format", "text", "json"),
        log_level=options.choice("log_level", "info", "debug", "warning", "error"),
    )


def _with_sednas(environ: Mapping[str, str]) -> dict[str, str]:
    """Sedna's variables stand in for our twins."""
    found = {
        PREFIX + name.upper(): environ[twin]
        for name, twin in SEDNA_TWINS.items()
        if environ.get(twin)
    }
    return found | {name: value for name, value in environ.items() if value}


def _root(options: Options, environ: Mapping[str, str]) -> Path:
    """Sedna: the variable that is there and empty means that nothing is mounted."""
    told = options.text("root")
    if told:
        return Path(told)
    return Path("/" if environ.get(SEDNA_TWINS["root"]) == "" else DEFAULT_ROOT)


def _path(options: Options, name: str) -> Path | None:
    text = options.text(name)
    return Path(text) if text else None


def _addresses(text: str) -> tuple[Address, ...]:
    found = tuple(address(each.strip()) for each in text.split(",") if each.strip())
    for each in found:
        if each.path:
            raise BadInput(f"{each}: name a host and a port")
    return found


def _port(text: str) -> int:
    port = whole(text)
    if not 0 < port <= MAX_PORT:
        raise BadInput(f"{text!r:.80} is not a port: write one from 1 to {MAX_PORT}")
    return port
