"""`relay-sidecar node`: the relay as part of a node, before kubelet.

`install` and `uninstall` change files, all or none, and say what they do; `prepare`, `snapshot` and
`ipam-gc` are what the units run; `status` and `doctor` look, and change nothing. Each imports what
it needs itself: all of a node waits for `prepare`.
"""

import argparse
import datetime
import difflib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_sidecars.runtime.cli.options import named
from edge_sidecars.runtime.cli.parser import Parser, checked
from edge_sidecars.runtime.cli.proxies import proxy_variables
from edge_sidecars.runtime.cli.startup import missing_extra
from edge_sidecars.runtime.cli.values import BadInput, address, seconds, url
from relay_sidecar.config import DEFAULT_LISTEN, DEFAULT_STATUS_LISTEN
from relay_sidecar.node.installer import cni, snapshot, units
from relay_sidecar.node.installer.installation import FileChange, Installation

if TYPE_CHECKING:
    from relay_sidecar.node.doctor.node_reader import Places
    from relay_sidecar.node.installer.plan import NodeOptions, Plan

DATA_DIR: Final = Path("/var/lib/relay-sidecar")
ROOT: Final = Path("/")
# Where kubeadm puts them.
KUBELET_KUBECONFIG: Final = Path("/etc/kubernetes/kubelet.conf")
CLIENT_CA_FILE: Final = Path("/etc/kubernetes/pki/ca.crt")
# Seconds; of one call of systemctl. Uninstalling is to be over in ten, and waits for nothing; a
# start fails by itself after 90 (systemd-system.conf(5), DefaultTimeoutStartSec=).
UNINSTALL_TIMEOUT: Final = 8.0
INSTALL_TIMEOUT: Final = 100.0


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    try:
        given = _parser().parse_args(arguments)
        given.proxies = proxy_variables(environ)
        work: Callable[[argparse.Namespace], int | None] = given.work
        return work(given) or 0
    except BadInput as error:
        sys.stderr.write(f"relay-sidecar node: {error}\n")
        return 2
    except ModuleNotFoundError as error:
        # Certificates and YAML: no image for pods has what they need.
        return missing_extra(error, program="relay-sidecar node", extra="node")


def _parser() -> Parser:
    it = Parser(
        prog="relay-sidecar node",
        description="The relay as part of a node: kubelet and what else runs here go on through "
        "it while the cloud is out of reach, also after a reboot.",
    )
    commands = it.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_install(commands.add_parser("install", help="kubelet speaks to the relay from then on"))
    uninstall = commands.add_parser("uninstall", help="everything as it was, also without a cloud")
    _add_data_dir(uninstall)
    uninstall.add_argument("--force", action="store_true", help="also what was changed by hand")
    uninstall.add_argument("--now", action="store_true", help="restart kubelet, stop the relay")
    uninstall.add_argument("--dry-run", action="store_true", help="say what would be done")
    uninstall.set_defaults(work=_uninstall)
    prepare = commands.add_parser("prepare", help="before the relay starts: its certificate, ...")
    _add_data_dir(prepare)
    prepare.add_argument("--pod-listen", type=checked(address), metavar="HOST:PORT")
    prepare.set_defaults(work=_prepare)
    save = commands.add_parser("snapshot", help="saves what a reboot must find")
    _add_data_dir(save)
    save.set_defaults(work=_snapshot)
    collect = commands.add_parser("ipam-gc", help="ends the reserved addresses of deleted pods")
    _add_data_dir(collect)
    _add_kubeconfig(collect)
    collect.add_argument(
        "--max-age", default="0s", metavar="DURATION", help="without a sandbox; 0s: no limit"
    )
    collect.set_defaults(work=_ipam_gc)
    status = commands.add_parser("status", help="is it installed, does it serve, and if not, why")
    _add_places(status)
    status.set_defaults(work=_status)
    doctor = commands.add_parser("doctor", help="what would fail at a reboot now, while cut")
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
    it.add_argument(flag, type=Path, default=default, metavar=value, help=told)


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
    text = "with which kubelet starts"
    _add_path(it, "--kubelet-kubeconfig", "FILE", KUBELET_KUBECONFIG, text)
    text = "who signs kubelet's certificate"
    _add_path(it, "--client-ca-file", "FILE", CLIENT_CA_FILE, text)
    it.add_argument(
        "--listen", type=checked(address), default=address(DEFAULT_LISTEN), metavar="HOST:PORT"
    )
    it.add_argument(
        "--pod-listen",
        type=checked(address),
        metavar="HOST:PORT",
        help="for pods of the pod network, on a link-local address like 169.254.20.11:10550",
    )
    it.add_argument(
        "--keep-secrets",
        type=Path,
        metavar="KEYFILE",
        help=f"Secrets and tokens outlast a reboot, sealed; a file named {'relay-sidecar-key'} is "
        "an encrypted credential of systemd",
    )
    it.add_argument(
        "--sticky-ipam",
        default="sticky-ipam",
        metavar="FILE|none",
        help="the CNI plugin with which pods keep their addresses; default: the one in PATH",
    )
    it.add_argument("--now", action="store_true", help="start the relay and restart kubelet")
    it.add_argument("--dry-run", action="store_true", help="show the changes and make none")
    it.add_argument("flags", nargs="*", metavar="-- FLAG", help="more flags of the relay")
    it.set_defaults(work=_install)


# ── install, uninstall ──


def _install(given: argparse.Namespace) -> None:
    from relay_sidecar.node.installer.plan import plan

    installation = Installation(ROOT, given.data_dir)
    wanted = plan(_options(given), installation)
    pending = installation.pending(wanted.changes)
    commands = _commands_of_install(wanted) if given.now else []
    for change in pending:
        _show(change, installation, with_text=given.dry_run)
    if not given.dry_run:
        installation.install(wanted.changes)
    _finish(pending, wanted.notes, commands, is_dry=given.dry_run, timeout=INSTALL_TIMEOUT)


def _options(given: argparse.Namespace) -> "NodeOptions":
    from relay_sidecar.node.installer.plan import NodeOptions

    return NodeOptions(
        kubelet_kubeconfig=given.kubelet_kubeconfig,
        data_dir=given.data_dir,
        listen=given.listen,
        pod_listen=given.pod_listen,
        client_ca_file=given.client_ca_file,
        keep_secrets=given.keep_secrets,
        sticky_ipam=_binary(given.sticky_ipam),
        program=(str(Path(sys.argv[0]).absolute()),),
        more_flags=tuple(given.flags),
    )


def _binary(name: str) -> Path | None:
    if name == "none":
        return None
    found = shutil.which(name) or shutil.which(name, path=str(cni.BINARY.parent))
    return Path(found or name)


def _uninstall(given: argparse.Namespace) -> None:
    installation = Installation(ROOT, given.data_dir)
    recorded = installation.recorded()
    if not recorded:
        raise BadInput(f"nothing is installed by {given.data_dir}: name its --data-dir")
    changes = [
        FileChange(path, installation.original(path), change.mode)
        for path, change in recorded.items()
    ]
    for change in changes:
        _show(change, installation, with_text=given.dry_run)
    if not given.dry_run:
        installation.uninstall(is_forced=given.force)
    notes = [f"{given.data_dir} is left: what is kept there, and the node's CA"]
    stop = [["stop", "--no-block", units.RELAY, f"{units.SNAPSHOT}.path", f"{units.IPAM_GC}.timer"]]
    commands = [["daemon-reload"], ["restart", "--no-block", "kubelet"], *stop]
    commands = commands if given.now else []
    _finish(changes, notes, commands, is_dry=given.dry_run, timeout=UNINSTALL_TIMEOUT)


def _commands_of_install(wanted: "Plan") -> list[list[str]]:
    names = [change.path.name for change in wanted.changes if change.path.parent == units.FOLDER]
    started = [name for name in names if name.endswith((".path", ".timer"))]
    return [
        ["daemon-reload"],
        ["enable", units.RELAY, *started],
        ["restart", units.RELAY, *started],
        ["restart", "--no-block", "kubelet"],
    ]


def _show(change: FileChange, installation: Installation, *, with_text: bool) -> None:
    what = "remove" if change.content is None else "write"
    print(f"{what} {change.path}")
    if with_text:
        path = installation.on_node(change.path)
        before = path.read_bytes() if path.is_file() else b""
        print(*_difference(before, change.content or b""), sep="\n")


def _difference(before: bytes, after: bytes) -> list[str]:
    try:
        old, new = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return [f"  {len(before)} bytes before, {len(after)} after"]
    lines = difflib.unified_diff(old, new, lineterm="", n=1)
    return [f"  {line}" for line in list(lines)[2:]]


def _finish(
    changes: Sequence[FileChange],
    notes: Sequence[str],
    commands: Sequence[Sequence[str]],
    *,
    is_dry: bool,
    timeout: float,
) -> None:
    if not changes:
        print("nothing to change")
    for note in notes:
        print(f"note: {note}")
    for command in commands:
        print("systemctl", *command)
        if not is_dry:
            _systemctl(command, timeout)


def _systemctl(command: Sequence[str], timeout: float) -> None:
    try:
        subprocess.run(
            ["systemctl", *command],
            check=True,
            timeout=timeout,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError as error:
        raise BadInput("systemctl is missing: start the relay before kubelet by hand") from error
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        why = " ".join(str(error.stderr or error).split())
        raise BadInput(f"systemctl {' '.join(command)}: {why}") from error


# ── what the units run ──


def _prepare(given: argparse.Namespace) -> None:
    from relay_sidecar.node.installer.authority import ensure_serving

    addresses = [] if given.pod_listen is None else [given.pod_listen.host]
    lack = ensure_serving(given.data_dir, addresses, now=datetime.datetime.now(datetime.UTC))
    if lack:
        print(f"note: {lack}")
    for host in addresses:
        _add_address(host)
    for path in snapshot.restore(ROOT, given.data_dir):
        print(f"restored {path}")


def _add_address(host: str) -> None:
    """On loopback, where it is there without any network."""
    is_v6 = ":" in host
    command = ["ip", "address", "replace", f"{host}/{128 if is_v6 else 32}", "dev", "lo"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError) as error:
        why = " ".join(str(getattr(error, "stderr", "") or error).split())
        raise BadInput(f"--pod-listen {host}: {' '.join(command)}: {why}") from error


def _snapshot(given: argparse.Namespace) -> None:
    for path in snapshot.save(ROOT, given.data_dir):
        print(f"saved {path}")


def _ipam_gc(given: argparse.Namespace) -> None:
    from relay_sidecar.node.ipam_gc import collect

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
    from relay_sidecar.commands.node_status import report

    serves, text = report(_places(given))
    print(text, end="")
    return 0 if serves else 1


def _doctor(given: argparse.Namespace) -> int:
    """0 if nothing would fail, 1 if something would, 3 if that is not known."""
    from relay_sidecar.node.doctor.findings import findings, notes
    from relay_sidecar.node.doctor.node_reader import collect
    from relay_sidecar.node.doctor.report import as_json, as_text, exit_status

    facts = collect(_places(given))
    found, said = findings(facts), notes(facts)
    print(as_json(found, said) if given.output == "json" else as_text(found, said))
    return exit_status(found)


def _places(given: argparse.Namespace) -> "Places":
    from relay_sidecar.node.doctor.node_reader import Places, listen_of, status_url_of

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
