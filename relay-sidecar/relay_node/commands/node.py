"""`relay-sidecar node`: the relay as part of a node, before kubelet.

`install` and `uninstall` change files, all or none, and say what they do (exit status 2 for bad
input, 1 for a node that does not do it). `prepare`, `snapshot` and `ipam-gc` are what the units
run. `status` and `doctor` look, and change nothing. Each imports what it needs itself: all of a
node waits for `prepare`.
"""

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_sidecars.runtime.cli.options import named
from edge_sidecars.runtime.cli.parser import Parser, checked
from edge_sidecars.runtime.cli.proxies import proxy_variables
from edge_sidecars.runtime.cli.startup import missing_extra
from edge_sidecars.runtime.cli.values import BadInput, address, seconds, url
from relay_node.installer import cni, snapshot
from relay_node.installer.systemd.services import InstallationFailed
from relay_sidecar.config import DEFAULT_LISTEN, DEFAULT_STATUS_LISTEN

if TYPE_CHECKING:
    from relay_node.doctor.node_reader import Places

# Seconds: a start with a big journal, and the first lists over a link with round trips of 2 s.
PATIENCE: Final = 60.0
DATA_DIR: Final = Path("/var/lib/relay-sidecar")
ROOT: Final = Path("/")
# Where kubeadm puts them.
KUBELET_KUBECONFIG: Final = Path("/etc/kubernetes/kubelet.conf")
CLIENT_CA_FILE: Final = Path("/etc/kubernetes/pki/ca.crt")


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    try:
        given = _parser().parse_args(arguments)
        given.proxies = proxy_variables(environ)
        work: Callable[[argparse.Namespace], int | None] = given.work
        return work(given) or 0
    except BadInput as error:
        sys.stderr.write(f"relay-sidecar node: {error}\n")
        return 2
    except InstallationFailed as error:
        sys.stderr.write(f"relay-sidecar node: {error}\n")
        return 1
    except ModuleNotFoundError as error:
        # Certificates and YAML: no image for pods has what they need.
        return missing_extra(error, program="relay-sidecar node", extra="node")


def _parser() -> Parser:
    it = Parser(
        prog="relay-sidecar node",
        example="relay-sidecar node status",
        manual="how-to/nodes",
        description="The relay as part of a node: kubelet and what else runs here go on through "
        "it while the cloud is out of reach, also after a reboot.",
    )

    def add(name: str, text: str, example: str = "") -> Parser:
        parser: Parser = commands.add_parser(
            name,
            help=text,
            example=f"relay-sidecar node {name} {example}".rstrip(),
            manual="how-to/nodes",
        )
        return parser

    commands = it.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_install(add("install", "kubelet speaks to the relay from then on", "--dry-run"))
    uninstall = add("uninstall", "everything as it was, also without a cloud", "--dry-run")
    _add_data_dir(uninstall)
    uninstall.add_argument("--force", action="store_true", help="also what was changed by hand")
    uninstall.add_argument("--now", action="store_true", help="restart kubelet, stop the relay")
    uninstall.add_argument("--dry-run", action="store_true", help="say what would be done")
    uninstall.set_defaults(work=_uninstall)
    prepare = add(
        "prepare",
        "before the relay starts: its certificate, ...",
        "--data-dir /var/lib/relay-sidecar",
    )
    _add_data_dir(prepare)
    prepare.add_argument("--pod-listen", type=checked(address), metavar="HOST:PORT")
    prepare.set_defaults(work=_prepare)
    save = add("snapshot", "saves what a reboot must find", "--data-dir /var/lib/relay-sidecar")
    _add_data_dir(save)
    save.set_defaults(work=_snapshot)
    collect = add("ipam-gc", "ends the reserved addresses of deleted pods", "--max-age 1h")
    _add_data_dir(collect)
    _add_kubeconfig(collect)
    collect.add_argument(
        "--max-age", default="0s", metavar="DURATION", help="without a sandbox; 0s: no limit"
    )
    collect.set_defaults(work=_ipam_gc)
    status = add("status", "is it installed, does it serve, and if not, why", "")
    _add_places(status)
    status.set_defaults(work=_status)
    doctor = add("doctor", "what would fail at a reboot now, while cut", "--output json")
    _add_places(doctor)
    doctor.add_argument(
        "--cni-conf-dir",
        type=Path,
        metavar="DIR",
        help="of networks; default: as the container runtime's configuration has it",
    )
    doctor.add_argument(
        "--root",
        type=Path,
        default=ROOT,
        metavar="DIR",
        help="before the paths of units and of what they start; default %(default)s",
    )
    doctor.add_argument("-o", "--output", choices=("text", "json"), default="text")
    _add_path(doctor, "--sticky-ipam", "FILE", cni.BINARY, "the CNI plugin")
    doctor.set_defaults(work=_doctor)
    return it


def _add_path(
    it: argparse.ArgumentParser, flag: str, value: str, default: Path, text: str = ""
) -> None:
    told = f"{text}; default %(default)s" if text else "default %(default)s"
    it.add_argument(flag, type=checked(absolute), default=default, metavar=value, help=told)


def _add_data_dir(it: argparse.ArgumentParser) -> None:
    _add_path(it, "--data-dir", "DIR", DATA_DIR)


def _add_kubeconfig(it: argparse.ArgumentParser) -> None:
    text = "kubelet's, which leads to the relay"
    _add_path(it, "--kubeconfig", "FILE", KUBELET_KUBECONFIG, text)


def _add_places(it: argparse.ArgumentParser) -> None:
    _add_data_dir(it)
    _add_kubeconfig(it)
    it.add_argument(
        "--listen",
        type=checked(address),
        metavar="HOST:PORT",
        help=f"of the relay; default: as installed, else {DEFAULT_LISTEN}",
    )
    it.add_argument(
        "--url",
        type=checked(url),
        metavar="URL",
        help="of the relay's --status-listen; default: as installed, else "
        f"http://{DEFAULT_STATUS_LISTEN}",
    )


def _add_install(it: argparse.ArgumentParser) -> None:
    _add_data_dir(it)
    it.add_argument(
        "--kubelet-kubeconfig",
        type=checked(absolute),
        metavar="FILE",
        help=f"with which kubelet starts; default {KUBELET_KUBECONFIG}",
    )
    it.add_argument(
        "--client-ca-file",
        type=checked(absolute),
        metavar="FILE",
        help=f"who signs kubelet's certificate; default {CLIENT_CA_FILE}",
    )
    it.add_argument(
        "--listen",
        type=checked(address),
        metavar="HOST:PORT",
        help=f"of the relay, for kubelet; default {DEFAULT_LISTEN}",
    )
    it.add_argument(
        "--pod-listen",
        type=checked(_or_none(address)),
        metavar="HOST:PORT|none",
        help="for pods of the pod network, on a link-local address like 169.254.20.11:10550",
    )
    it.add_argument(
        "--keep-secrets",
        type=checked(_or_none(absolute)),
        metavar="KEYFILE|none",
        help="Secrets and tokens outlast a reboot, sealed; a file named relay-sidecar-key is "
        "an encrypted credential of systemd",
    )
    it.add_argument(
        "--sticky-ipam",
        metavar="FILE|none",
        help="the CNI plugin with which pods keep their addresses; default: the one beside this "
        "program, or in PATH",
    )
    it.add_argument(
        "--fresh",
        action="store_true",
        help="options that are not given have their defaults, not what was installed before",
    )
    it.add_argument("--now", action="store_true", help="restart kubelet too, to use the relay")
    it.add_argument(
        "--patience",
        type=checked(seconds),
        default=PATIENCE,
        metavar="DURATION",
        help="in which the relay has to serve kubelet's own reads; default 60s",
    )
    it.add_argument("--dry-run", action="store_true", help="show the changes and make none")
    it.add_argument(
        "flags", nargs="*", metavar="-- FLAG", help="more flags of the relay; default: as before"
    )
    it.set_defaults(work=_install)


def absolute(text: str) -> Path:
    """Raises `BadInput`."""
    if not text.startswith("/"):
        raise BadInput(f"{text!r:.80} is relative to a folder of this moment: name it from / on")
    return Path(os.path.normpath(text))


def _or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    return lambda text: text if text == "none" else parse(text)


# ── install, uninstall ──


def _install(given: argparse.Namespace) -> None:
    from relay_node.commands.node_install import install

    install(given, ROOT)


def _uninstall(given: argparse.Namespace) -> None:
    from relay_node.commands.node_install import uninstall

    uninstall(given, ROOT)


# ── what the units run ──


def _prepare(given: argparse.Namespace) -> None:
    from relay_node.installer.authority import ensure_serving
    from relay_node.installer.plan import KUBELET_UNIT
    from relay_node.installer.plugin_sockets import remove_dead_sockets

    addresses = [] if given.pod_listen is None else [given.pod_listen.host]
    lack = ensure_serving(given.data_dir, addresses, now=datetime.datetime.now(datetime.UTC))
    if lack:
        print(f"note: {lack}")
    for host in addresses:
        _add_address(host)
    for path in snapshot.restore(ROOT, given.data_dir):
        print(f"restored {path}")
    for path in [] if _may_run(KUBELET_UNIT) else remove_dead_sockets(ROOT):
        print(f"removed {path}, at which nothing listens")


def _may_run(unit: str) -> bool:
    from relay_node.installer.systemd.services import InstallationFailed, Services

    try:
        return Services(timeout=5).is_active(unit)
    except (InstallationFailed, BadInput):
        return True


def _add_address(host: str) -> None:
    """On loopback, where it is there without any network."""
    is_v6 = ":" in host
    command = ["ip", "address", "replace", f"{host}/{128 if is_v6 else 32}", "dev", "lo"]
    try:
        subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=5
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = " ".join(str(getattr(error, "stderr", "") or error).split())
        raise BadInput(f"--pod-listen {host}: {' '.join(command)}: {why}") from error


def _snapshot(given: argparse.Namespace) -> None:
    for path in snapshot.save(ROOT, given.data_dir):
        print(f"saved {path}")


def _ipam_gc(given: argparse.Namespace) -> None:
    from relay_node.ipam_gc import collect

    named("max_age", seconds, given.max_age)
    collect(
        given.kubeconfig,
        state_dir=given.data_dir / cni.STATE,
        max_age=given.max_age,
        proxies=given.proxies,
    )


# ── what only looks ──


def _status(given: argparse.Namespace) -> int:
    """0 if the relay serves, 1 if it does not."""
    from relay_node.commands.node_status import report

    serves, text = report(_places(given))
    print(text, end="")
    return 0 if serves else 1


def _doctor(given: argparse.Namespace) -> int:
    """0 if nothing would fail, 1 if something would, 3 if that is not known."""
    from relay_node.doctor.findings import findings, notes
    from relay_node.doctor.node_reader import collect
    from relay_node.doctor.report import as_json, as_text, exit_status

    facts = collect(_places(given))
    found, said = findings(facts), notes(facts)
    print(as_json(found, said) if given.output == "json" else as_text(found, said))
    return exit_status(found)


def _places(given: argparse.Namespace) -> "Places":
    from relay_node.doctor.node_reader import Places, listen_of, status_url_of

    root = getattr(given, "root", ROOT)
    return Places(
        root=root,
        data_dir=given.data_dir,
        kubeconfig=given.kubeconfig,
        listen=given.listen or listen_of(root),
        status_url=given.url or status_url_of(root),
        cni_folder=getattr(given, "cni_conf_dir", None),
        sticky_ipam=getattr(given, "sticky_ipam", cni.BINARY),
        proxies=given.proxies,
    )
