"""The command line: flags with env twins, checked once, frozen.

Owns defaults, what options mean together, and the messages for bad input, each of which names the
value and the remedy. A flag wins over its twin `LC_<FLAG>`, and that over Sedna's own variable. No
option is ignored: what has no meaning in a mode is refused, but for Sedna's GM_ADDRESS, which its
manifests set in any case.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from edge_sidecars.runtime.cli.combinations import Excludes, Needs, refuse_meaningless
from edge_sidecars.runtime.cli.options import (
    Options,
    Parser,
    command_line,
    flag,
    log_format_option,
    log_level_option,
    one_of,
    option,
    option_values,
    setting,
    switch_option,
)
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables, proxy_variables
from edge_sidecars.runtime.cli.values import (
    MAX_PORT,
    Address,
    BadInput,
    address,
    check_distinct,
    seconds,
    size,
    url_like,
    whole,
)
from edge_sidecars.runtime.formats.rfc1123 import is_label, is_subdomain
from lc.config import DEFAULT_BIND_PORT, PREFIX, SEDNA_TWINS

# Where Sedna's DaemonSet mounts the node's /.
DEFAULT_ROOT = "/rootfs"
# Below the root.
DEFAULT_DATA_DIR = "var/lib/sedna"
# On the node: what Sedna's manifests lay there, and all that ours mount.
DEFAULT_FILES_ROOT = PurePosixPath("/var/lib/sedna")
# Seconds; a shorter interval is load and no news.
MIN_INTERVAL = 1.0
MIN_REDIAL_CAP = 0.2
_STREAM = ("gm_address", "server_ca", "tls_cert", "tls_key", "gm_token_file")
_COMBINATIONS = (
    Excludes(_STREAM, "mode", "relay", "LC never dials GM"),
    Needs(("api", "relay_status", "namespace"), "mode", "relay"),
)


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


def loopback(text: str) -> Address:
    return Address("127.0.0.1", _port(text))


def _base(text: str) -> str:
    return url_like("http://127.0.0.1:10550")(text).rstrip("/")


def _directory(text: str) -> PurePosixPath:
    if not text.startswith("/") or ".." in text.split("/") or "\0" in text:
        raise BadInput(f"{text!r:.120} is not a directory of the node: write it like /var/lib/data")
    return PurePosixPath("/", *(each for each in text.split("/") if each))


def _transfer_size(text: str) -> int:
    found = size(text)
    if not found:
        raise BadInput(f"{text!r:.80} lets nothing through: write it like 16Gi")
    return found


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of `lc`; durations in seconds."""

    is_relay: bool = one_of(
        "stream|relay",
        "stream: from GM; relay: from the API, through the pod's relay",
        true="relay",
        name="mode",
        group="where objects come from",
    )
    gm_addresses: tuple[Address, ...] = option(
        "HOST:PORT",
        "of GM's stream, or several with commas; Sedna: GM_ADDRESS",
        _addresses,
        default="",
        name="gm_address",
    )
    server_ca: Path | None = option(
        "FILE", "TLS to GM, which this CA vouches for; default: no TLS", Path
    )
    tls_cert: Path | None = option("FILE", "who this node is to GM; with --tls-key", Path)
    tls_key: Path | None = option("FILE", "of --tls-cert", Path)
    gm_token_file: Path | None = option(
        "FILE", "or a token that GM has reviewed; needs --server-ca", Path
    )
    redial_cap: float = setting(
        "8s", "the longest wait before GM, or the relay, is tried again", seconds
    )
    api: str = option(
        "URL",
        "the relay, in mode relay; default {default}",
        _base,
        default="http://127.0.0.1:10550",
    )
    relay_status: str = option(
        "URL", "the relay's own port; default {default}", _base, default="http://127.0.0.1:10551"
    )
    # "": all.
    namespace: str = option(
        "NAMESPACE", "only objects of this one, in mode relay; default: of all", default=""
    )
    node: str = option(
        "NAME", "default: the host's name; Sedna: NODENAME", default="", group="this node"
    )
    root: Path = option(
        "DIR",
        f"below which files of the node are mounted; default {DEFAULT_ROOT}; Sedna: "
        "ROOTFS_MOUNT_DIR",
        Path,
    )
    files_roots: tuple[PurePosixPath, ...] = option(
        "DIR",
        "a directory of the node below which files may be read and written; may be repeated; "
        f"default {DEFAULT_FILES_ROOT}",
        _directory,
        name="files_root",
        is_repeated=True,
    )
    data_dir: Path = option("DIR", f"default <root>/{DEFAULT_DATA_DIR}", Path)
    secrets_dir: Path | None = option(
        "DIR", "Secrets that are mounted as <namespace>/<name>; default: none", Path
    )
    dataset_interval: float = setting("60s", "between two counts of one dataset", seconds)
    max_transfer_size: int = option(
        "SIZE",
        "of one file that is downloaded or copied; default {default}",
        _transfer_size,
        default="16Gi",
    )
    transfer_timeout: float = setting("1h", "one download or upload is given up then", seconds)
    listen: Address = option(
        "PORT",
        "on 127.0.0.1; default {default}; Sedna: BIND_PORT",
        loopback,
        default=str(DEFAULT_BIND_PORT),
        name="bind_port",
        group="workers",
    )
    node_listen: Address | None = option(
        "HOST:PORT", "also there, for workers without host network; with a token", address
    )
    token_file: Path | None = option(
        "FILE", "what clients of --node-listen must know; read again at a change", Path
    )
    trusts_any_worker: bool = switch_option(
        "take reports without the capability that GM gives each worker: pods of an earlier "
        "release; default false",
        name="trust_any_worker",
    )
    log_format: str = log_format_option(group="logging")
    log_level: str = log_level_option()
    proxies: ProxyVariables = NO_PROXIES

    def __post_init__(self) -> None:
        if not is_subdomain(self.node):
            raise BadInput(f"--node {self.node!r:.80} is not a node's name: set NODENAME")
        if self.namespace and not is_label(self.namespace):
            raise BadInput(
                f"--namespace {self.namespace!r:.80} is not a namespace: lower-case, digits and -"
            )
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
        if self.transfer_timeout < MIN_INTERVAL:
            raise BadInput(
                f"--transfer-timeout {self.transfer_timeout:g}s must be at least {MIN_INTERVAL:g}s"
            )
        if Path("/") in (self.root.joinpath(*it.parts[1:]) for it in self.files_roots):
            raise BadInput(
                "--files-root / is the whole node, for users who can create an object: name the "
                "directories that datasets and models lie in"
            )
        if self.redial_cap < MIN_REDIAL_CAP:
            raise BadInput(
                f"--redial-cap {self.redial_cap:g}s must be at least {MIN_REDIAL_CAP:g}s"
            )
        self._check_node_listen()

    @property
    def own_ports(self) -> frozenset[int]:
        """Of loopback: those of this process, and of a relay, which may be there in either mode."""
        addresses = [it.port for it in (self.listen, self.node_listen) if it is not None]
        relays = (urlsplit(it).port or 80 for it in (self.api, self.relay_status))
        return frozenset((*addresses, *relays))

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
        check_distinct({"--bind-port": self.listen, "--node-listen": self.node_listen})


def parser() -> Parser:
    """Raises `BadInput` from `parse_args`."""
    return command_line(
        Config,
        prog="sedna-lc",
        example="sedna-lc --gm-address gm.sedna:9000 --node edge-1 --root /",
        manual="reference/lc",
        description="Sedna's Local Controller: what Sedna does on one edge node.",
        epilog="Sub-commands: `sedna-lc run` (default), `sedna-lc status` (how it stands on this "
        "node), `sedna-lc livez` (exit 0 only if it answers). Every flag has an env twin, "
        "LC_<FLAG>.",
    )


def load(arguments: Sequence[str], environ: Mapping[str, str], *, hostname: str) -> Config:
    """Raises `BadInput`."""
    given = vars(parser().parse_args(arguments))
    own = Options(given, environ, prefix=PREFIX)
    with own.naming_variables():
        is_relay = own.choice("mode", "stream", "relay") == "relay"
        refuse_meaningless(Config, own, _COMBINATIONS)
    # Sedna's manifests set GM_ADDRESS in any mode.
    others = {
        name: twin for name, twin in SEDNA_TWINS.items() if not (is_relay and name in _STREAM)
    }
    options = Options(given, environ, prefix=PREFIX, others=others)
    with options.naming_variables():
        return _config(options, environ, hostname=hostname)


def _config(options: Options, environ: Mapping[str, str], *, hostname: str) -> Config:
    values = option_values(Config, options)
    values["node"] = values["node"] or environ.get("HOSTNAME") or hostname
    # Sedna: the variable that is there and empty means that nothing is mounted.
    is_unmounted = environ.get(SEDNA_TWINS["root"]) == ""
    values["root"] = values["root"] or Path("/" if is_unmounted else DEFAULT_ROOT)
    values["data_dir"] = values["data_dir"] or values["root"] / DEFAULT_DATA_DIR
    roots = values["files_roots"] or (DEFAULT_FILES_ROOT,)
    values["files_roots"] = tuple(_on_node(each, values["root"]) for each in roots)
    return Config(**values, proxies=proxy_variables(environ))


def _on_node(directory: PurePosixPath, root: Path) -> PurePosixPath:
    """One that is named where it is mounted is meant as the node has it."""
    if root != Path("/") and directory.is_relative_to(root):
        return PurePosixPath("/", directory.relative_to(root))
    return directory
