"""`relay-sidecar node install` and `node uninstall`: what is given, what is printed.

Guarantees: an option that is not given is as it was at the installation before, and is said; a dry
run looks at all that an installation looks at, and changes nothing.
"""

import argparse
import difflib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput, address
from relay_node.file_state import FileChange
from relay_node.identity import context_of, identity_of
from relay_node.installer import cni, inputs, kubelet, leftovers
from relay_node.installer.authority import check_addresses
from relay_node.installer.installation import Installation
from relay_node.installer.leftovers import Leftovers
from relay_node.installer.plan import CREDENTIAL, NodeOptions, Plan, client_ca, plan
from relay_node.installer.steps import (
    KUBELET,
    Steps,
    alone,
    has_address,
    remove_address,
)
from relay_node.installer.systemd import units
from relay_node.installer.systemd.services import IMPATIENCE, InstallationFailed, Services
from relay_node.installer.trial import Trial
from relay_node.kubelet_api import node_of
from relay_sidecar.config import DEFAULT_LISTEN

# Where kubeadm puts them.
KUBELET_KUBECONFIG: Final = Path("/etc/kubernetes/kubelet.conf")
CLIENT_CA_FILE: Final = Path("/etc/kubernetes/pki/ca.crt")
NONE: Final = "none"
STICKY: Final = "sticky-ipam"
# What the last installation had, where it is not given anew.
_REMEMBERED: Final = {
    "kubelet_kubeconfig": str(KUBELET_KUBECONFIG),
    "client_ca_file": str(CLIENT_CA_FILE),
    "listen": DEFAULT_LISTEN,
    "pod_listen": NONE,
    "keep_secrets": NONE,
}


def install(given: argparse.Namespace, root: Path) -> None:
    """Raises `BadInput` and `InstallationFailed`, with everything as it was."""
    installation, services = Installation(root, given.data_dir), Services()
    steps = Steps(installation, given.data_dir, services)
    with alone(installation.on_node(units.FOLDER)):
        if given.dry_run:
            if installation.interrupted() is not None:
                print("note: an installation that was cut short would be taken back first")
        elif steps.recover():
            print("note: an installation that was cut short is taken back")
        options, notes = _options(given, installation, services)
        wanted = plan(options, installation)
        node = _checked(options, wanted, installation)
        pending = installation.pending(wanted.changes)
        _show(pending, installation, with_text=given.dry_run)
        if not given.dry_run:
            _perform(given, options, wanted, node=node, steps=steps, services=services)
        _print_notes([*notes, *wanted.notes])


def _perform(
    given: argparse.Namespace,
    options: NodeOptions,
    wanted: Plan,
    *,
    node: str,
    steps: Steps,
    services: Services,
) -> None:
    by_path = {change.path: change for change in wanted.changes}
    by_relay = by_path[options.kubelet_kubeconfig].content or b""
    folder = options.kubelet_kubeconfig.parent
    trial = Trial(
        kubeconfig=steps.trial_kubeconfig,
        node=node,
        status_listen=inputs.config(wanted.flags).status_listen,
        services=services,
        patience=given.patience,
    )
    steps.install(
        wanted.changes,
        wanted.late,
        trial=trial.run,
        trial_kubeconfig=kubelet.absolute(by_relay, folder=folder),
        options=options.recorded,
        address="" if options.pod_listen is None else options.pod_listen.host,
        restarts_kubelet=given.now,
    )
    print(f"the relay serves node {node}, and starts with it: {', '.join(wanted.units)}")
    if not given.now:
        print("note: kubelet speaks to it once it is restarted: systemctl restart kubelet")


def _checked(options: NodeOptions, wanted: Plan, installation: Installation) -> str:
    """The node's name. Raises `BadInput`."""
    inputs.more_flags(options.more_flags)
    inputs.config(wanted.flags)
    if options.pod_listen is not None:
        check_addresses([options.pod_listen.host])
    key = options.keep_secrets
    if options.credential is not None:
        name, path = options.credential
        inputs.encrypted_credential(installation.on_node(path), path, name)
    elif key is not None:
        journal = installation.on_node(options.data_dir)
        inputs.key_file(installation.on_node(key), key, data_dir=journal)
    upstream = wanted.upstream
    inputs.authorities(upstream.authorities, f"the CA of {options.kubelet_kubeconfig}")
    named = f"--client-ca-file {options.client_ca_file}"
    node = inputs.node_certificate(
        installation.on_node(upstream.certificate),
        installation.on_node(upstream.key),
        client_ca=inputs.authorities(client_ca(options, installation), named),
        now=time.time(),
    )
    if options.sticky_ipam is not None:
        inputs.sticky_binary(options.sticky_ipam)
    inputs.check_program(options.program)
    return node


# ── options ──


def _options(
    given: argparse.Namespace, installation: Installation, services: Services
) -> tuple[NodeOptions, list[str]]:
    """And what there is to say about them. Raises `BadInput`."""
    before: Mapping[str, Any] = {}
    if not given.fresh and installation.recorded():
        before = installation.options() or _of_unit(installation)
    values, notes = {}, list[str]()
    for name, default in _REMEMBERED.items():
        now, last = getattr(given, name), before.get(name)
        values[name] = str(last or default) if now is None else str(now)
        if now is None and last and last != default:
            notes.append(f"--{name.replace('_', '-')}={last}, as installed before")
    flags = list(given.flags) or [str(flag) for flag in before.get("flags", ())]
    if flags and not given.flags:
        notes.append(f"-- {shlex.join(flags)}, as installed before")
    if notes:
        notes.append("--fresh takes nothing from the installation before")
    sticky = given.sticky_ipam or before.get("sticky_ipam") or STICKY
    kubeconfig = Path(values["kubelet_kubeconfig"])
    _check_node(kubeconfig, installation, services, is_dry=given.dry_run)
    return NodeOptions(
        kubelet_kubeconfig=kubeconfig,
        data_dir=given.data_dir,
        listen=address(values["listen"]),
        pod_listen=None if values["pod_listen"] == NONE else address(values["pod_listen"]),
        client_ca_file=_absolute("--client-ca-file", values["client_ca_file"]),
        keep_secrets=_optional("--keep-secrets", values["keep_secrets"]),
        sticky_ipam=_binary(str(sticky)),
        program=inputs.program(),
        more_flags=tuple(flags),
        kubelet_environ=_kubelet_environ(services, is_dry=given.dry_run),
    ), notes


def _of_unit(installation: Installation) -> dict[str, Any]:
    """Of a version that did not record them: by the unit that it wrote."""
    path = installation.on_node(units.FOLDER / units.RELAY)
    text = path.read_text(errors="replace") if path.is_file() else ""
    found: dict[str, Any] = {}
    for name in ("listen", "pod_listen", "keep_secrets"):
        value = units.flag_of(text, f"--{name.replace('_', '-')}")
        if value is not None:
            found[name] = value
    if found.get("keep_secrets", "").startswith("%d/"):
        key = f"LoadCredentialEncrypted={CREDENTIAL}:"
        lines = [it.removeprefix(key) for it in text.splitlines() if it.startswith(key)]
        found["keep_secrets"] = lines[0] if lines else NONE
    found["flags"] = list(_given_flags(text))
    return found


def _given_flags(unit: str) -> Iterator[str]:
    """Those after the last one of the installer's own."""
    lines = [it for it in unit.splitlines() if it.startswith("ExecStart=")]
    _, _, rest = (lines[0] if lines else "").partition(" --log-refusals ")
    for word in units.words_of(rest):
        if not word.startswith(("--pod-listen=", "--keep-secrets=")):
            yield word.replace("%%", "%").replace("$$", "$")


def _check_node(
    kubeconfig: Path, installation: Installation, services: Services, *, is_dry: bool
) -> None:
    """Raises `BadInput` for a node that this cannot work on."""
    inputs.distribution(kubeconfig)
    if installation.original(kubeconfig) is None:
        why = inputs.supervisor(installation.on_node(Path("/")))
        raise BadInput(
            f"--kubelet-kubeconfig {kubeconfig} does not exist: {why or 'name the one of kubelet'}"
        )
    if is_dry and shutil.which("systemctl") is None:
        return
    state = services.show(KUBELET, "LoadState").get("LoadState")
    if state in ("not-found", "masked"):
        why = inputs.supervisor(installation.on_node(Path("/")))
        raise BadInput(
            f"{KUBELET} is {state}: "
            f"{why or 'the relay serves a kubelet that systemd starts by this name'}"
        )


def _kubelet_environ(services: Services, *, is_dry: bool) -> Mapping[str, str]:
    if is_dry and shutil.which("systemctl") is None:
        return {}
    return services.environ(KUBELET)


def _absolute(named: str, text: str) -> Path:
    if not text.startswith("/"):
        raise BadInput(f"{named} {text} is relative to a folder of this moment: name it from / on")
    return Path(text)


def _optional(named: str, text: str) -> Path | None:
    return None if text == NONE else _absolute(named, text)


def _binary(name: str) -> Path | None:
    """Never from the working directory."""
    if name == NONE:
        return None
    if "/" in name:
        return _absolute("--sticky-ipam", name)
    program = Path(sys.argv[0]).absolute()
    path = [it for it in os.environ.get("PATH", "").split(os.pathsep) if it.startswith("/")]
    folders = [program.parent, program.resolve().parent, *map(Path, path), cni.BINARY.parent]
    for folder in folders:
        if os.access(folder / name, os.X_OK) and (folder / name).is_file():
            return folder / name
    raise BadInput(
        f"--sticky-ipam {name} is neither beside {program} nor in PATH: pip does not bring it; "
        "name the binary of the release's archive by its path, or none (pods may then come back "
        "with other addresses)"
    )


# ── uninstall ──


def uninstall(given: argparse.Namespace, root: Path) -> None:
    """Raises `BadInput` and `InstallationFailed`."""
    installation = Installation(root, given.data_dir)
    services = Services(timeout=IMPATIENCE)
    steps = Steps(installation, given.data_dir, services)
    with alone(installation.on_node(units.FOLDER)):
        is_recovered = not given.dry_run and steps.recover()
        if is_recovered:
            print("an installation that was cut short is taken back")
        if installation.recorded():
            _take_back(given, installation, services)
        elif _is_cut_short(installation, services):
            _end_units(given, services)
        elif installation.leftover():
            _look_again(given, installation, services)
        elif not is_recovered:
            raise BadInput(f"nothing is installed by {given.data_dir}: name its --data-dir")


def _take_back(given: argparse.Namespace, installation: Installation, services: Services) -> None:
    recorded = installation.recorded()
    options = installation.options() or _of_unit(installation)
    node, left = _node_name(installation, options), _look(installation, services, options)
    plugin = recorded.get(cni.BINARY)
    is_ours = plugin is not None and not plugin.backup
    leaves = [cni.BINARY, cni.PASSTHROUGH] if left.naming and is_ours else []
    changes = [
        FileChange(path, installation.original(path), change.mode)
        for path, change in reversed(recorded.items())
        if path not in leaves
    ]
    _show(changes, installation, with_text=given.dry_run)
    notes = [f"{given.data_dir} is left: what is kept there, and the node's CA"]
    if not given.dry_run:
        if plugin is not None:
            notes += _free_addresses(installation, given.data_dir / cni.STATE)
        if leaves:
            # From here on the plugin makes no reservations that would never end.
            installation.on_node(cni.PASSTHROUGH).touch()
        installation.uninstall(is_forced=given.force, leaves=leaves)
        _leave(installation, leaves, left, options)
    _end_units(given, services)
    _print_notes([*notes, *leftovers.remedies(left, node)])


def _is_cut_short(installation: Installation, services: Services) -> bool:
    """Whether an uninstallation put all files back, and a relay without a unit runs on."""
    if installation.on_node(units.FOLDER / units.RELAY).exists():
        return False
    try:
        return services.show(units.RELAY, "ActiveState").get("ActiveState") == "active"
    except (BadInput, InstallationFailed):
        return False


def _end_units(given: argparse.Namespace, services: Services) -> None:
    commands = [
        ["daemon-reload"],
        ["restart", "--no-block", "kubelet"],
        ["stop", "--no-block", units.RELAY, f"{units.SNAPSHOT}.path", f"{units.IPAM_GC}.timer"],
    ]
    for command in commands if given.now else []:
        print("systemctl", *command)
        if not given.dry_run:
            services.run(*command)


def _leave(
    installation: Installation, files: Sequence[Path], left: Leftovers, options: Mapping[str, Any]
) -> None:
    if left.address and not left.needs_address:
        remove_address(left.address)
    if files or left.pods or left.needs_address:
        installation.leave(files, options)


def _look_again(given: argparse.Namespace, installation: Installation, services: Services) -> None:
    """Of what an `uninstall` before had to leave: removed, once nothing needs it."""
    found = installation.leftover()
    options = found.get("options", {})
    left = _look(installation, services, options)
    files = [] if left.naming else [Path(path) for path in found.get("files", ())]
    _show([FileChange(path, None) for path in files], installation, with_text=False)
    notes = leftovers.remedies(left, _node_name(installation, options))
    if not given.dry_run:
        if not left.naming:
            installation.remove_leftover()
            _leave(installation, [], left, options)
        elif left.address and not left.needs_address:
            remove_address(left.address)
    _print_notes(notes or ["nothing of the relay is left but its --data-dir"])


def _look(installation: Installation, services: Services, options: Mapping[str, Any]) -> Leftovers:
    pod_listen = options.get("pod_listen", NONE)
    host = "" if pod_listen == NONE else address(pod_listen).host
    try:
        config_file = services.config_file(KUBELET)
    except (BadInput, InstallationFailed):
        config_file = None
    return leftovers.look(
        installation,
        address=host if host and has_address(host) else "",
        kubelet_config=config_file,
    )


def _node_name(installation: Installation, options: Mapping[str, Any]) -> str:
    path = Path(options.get("kubelet_kubeconfig", KUBELET_KUBECONFIG))
    kubeconfig = installation.on_node(path)
    try:
        return node_of(identity_of(context_of(kubeconfig), kubeconfig).user)
    except BadInput:
        return "NODE"


def _free_addresses(installation: Installation, state_dir: Path) -> list[str]:
    """Of pods without a sandbox; these reservations would never end."""
    binary = installation.on_node(cni.BINARY)
    command = [str(binary), "release", "--all", f"--state-dir={installation.on_node(state_dir)}"]
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPATIENCE / 2,
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = " ".join(str(getattr(error, "stderr", "") or error).split())
        return [f"reserved addresses of pods without a sandbox stay taken: {why}"]
    return []


# ── what is printed ──


def _show(changes: Sequence[FileChange], installation: Installation, *, with_text: bool) -> None:
    if not changes:
        print("nothing to change")
    for change in changes:
        print(f"{_verb(change)} {change.path}")
        if with_text and not change.link:
            path = installation.on_node(change.path)
            before = path.read_bytes() if path.is_file() else b""
            print(*_difference(before, change.content or b""), sep="\n")


def _verb(change: FileChange) -> str:
    if change.link:
        return "link"
    return "remove" if change.content is None else "write"


def _difference(before: bytes, after: bytes) -> list[str]:
    try:
        old, new = before.decode().splitlines(), after.decode().splitlines()
    except UnicodeDecodeError:
        return [f"  {len(before)} bytes before, {len(after)} after"]
    lines = difflib.unified_diff(old, new, lineterm="", n=1)
    return [f"  {line}" for line in list(lines)[2:]]


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        print(f"note: {note}")
