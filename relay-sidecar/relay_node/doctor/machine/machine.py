"""What a reboot finds on the disk of a node: units, kubelet's and the runtime's configuration, the
relay's flags and key, plugins of networks. Looks, and changes nothing.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import Address, BadInput
from relay_node.doctor.machine.kubelet import Kubelet, read_kubelet
from relay_node.doctor.machine.runtime import (
    CONTAINERD,
    SOCKET,
    Network,
    Runtime,
    networks,
    read_images,
    read_runtime,
    unit_of,
)
from relay_node.doctor.machine.service import Run, Service, program_lack, service
from relay_node.doctor.machine.unit_files import Command, Disk, Unit, UnitFiles
from relay_node.doctor.unknown import Unknown
from relay_node.installer import cni
from relay_node.installer.authority import authority_lack
from relay_node.installer.inputs import encrypted_credential
from relay_node.installer.plan import CREDENTIAL
from relay_node.installer.systemd import units
from relay_sidecar.journal.sealing.key_file import read_key_file

KUBELET: Final = "kubelet.service"
# Seconds.
TIMEOUT: Final = 10.0
_SHOWN: Final = (
    *("Id", "ActiveState", "SubState", "NeedDaemonReload", "MainPID"),
    *("ExecMainStartTimestamp", "ExecMainStartTimestampMonotonic"),
)


@dataclass(frozen=True, kw_only=True)
class RelayStart:
    """As the unit would start the relay. `key_lack`: why the key could not be used, or "";
    `addresses`: which are set before it starts."""

    data_dir: Path | None
    keep_secrets: Path | None
    key_lack: str
    listen: Address
    addresses: tuple[str, ...]
    lacks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """`start` None: nothing starts a relay that is understood; `systemd` Unknown: it could not be
    asked; `plugins`: why each that is called cannot be, by name."""

    relay: Service
    kubelet: Service
    runtime: Service | None
    systemd: Unknown | None
    start: RelayStart | None
    kubelet_settings: Kubelet | None
    runtime_settings: Runtime | Unknown
    images: frozenset[str] | Unknown
    networks: Sequence[Network] | Unknown
    plugins: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Sought:
    """Where to look. `root`: before every path of the node; `networks`: as it is, instead of the
    folder that the runtime names."""

    root: Path
    networks: Path | None


def read_machine(sought: Sought) -> Machine:
    disk = Disk(sought.root)
    files = UnitFiles(disk)
    command = _command(files, KUBELET, disk)
    settings = None if command is None else read_kubelet(command, disk)
    socket = SOCKET if settings is None else settings.socket
    runtime_name = unit_of(socket)
    names = [units.RELAY, KUBELET, *([runtime_name] if runtime_name else [])]
    runs = _runs(names)
    start, relay_files = _relay_start(files.unit(units.RELAY), disk)
    configuration, runtime = _runtime(files, runtime_name, disk)
    read = {
        units.RELAY: relay_files,
        KUBELET: () if settings is None else settings.files,
        runtime_name: (configuration,),
    }
    started = files.started()
    relay, kubelet, *others = (
        service(
            name,
            files,
            disk,
            started,
            None if isinstance(runs, Unknown) else runs.get(name),
            more_files=read[name],
        )
        for name in names
    )
    found = _networks(sought.networks, runtime, disk)
    return Machine(
        relay=relay,
        kubelet=kubelet,
        runtime=others[0] if others else None,
        systemd=runs if isinstance(runs, Unknown) else None,
        start=start,
        kubelet_settings=settings,
        runtime_settings=runtime,
        images=read_images(socket),
        networks=found,
        plugins=dict(_lacking_plugins(runtime, found, disk)),
    )


# ── systemd ──


def _command(files: UnitFiles, name: str, disk: Disk) -> Command | None:
    unit = files.unit(name)
    commands = [] if unit is None else unit.commands("ExecStart", disk)
    return commands[-1] if commands else None


def _runs(names: Sequence[str]) -> dict[str, Run] | Unknown:
    command = ["systemctl", "show", "--timestamp=unix", f"--property={','.join(_SHOWN)}", *names]
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, errors="replace", timeout=TIMEOUT
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = " ".join(str(getattr(error, "stderr", "") or error).split())
        return Unknown(f"`systemctl show`: {said}")
    blocks = [_block(text) for text in done.stdout.split("\n\n") if text.strip()]
    return {block["Id"]: _run(block) for block in blocks if "Id" in block}


def _block(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


def _run(block: Mapping[str, str]) -> Run:
    sub = block.get("SubState", "")
    return Run(
        state=sub if sub in ("auto-restart", "failed") else block.get("ActiveState", ""),
        started_at=_started_at(block) if block.get("MainPID", "0") != "0" else None,
        is_outdated=block.get("NeedDaemonReload") == "yes",
    )


def _started_at(block: Mapping[str, str]) -> float | None:
    """By the clock of files, in whole seconds; and by the other, exact but for a suspend since."""
    seconds = block.get("ExecMainStartTimestamp", "").removeprefix("@")
    since_boot = block.get("ExecMainStartTimestampMonotonic", "")
    if not (seconds.isdigit() and since_boot.isdigit()):
        return None
    exact = time.time() - (time.monotonic() - int(since_boot) / 1e6)
    return min(exact, int(seconds) + 1.0)


# ── the relay ──


def _relay_start(unit: Unit | None, disk: Disk) -> tuple[RelayStart | None, tuple[Path, ...]]:
    """And which files it reads as it starts."""
    from relay_sidecar.config.config import load

    commands = [] if unit is None else unit.commands("ExecStart", disk)
    arguments = _arguments(commands[-1]) if commands else None
    if unit is None or arguments is None:
        return None, ()
    try:
        config = load(arguments, unit.environment(disk))
    except BadInput as error:
        return _no_start(str(error)), ()
    named = {
        "--client-certificate": config.client_certificate,
        "--client-key": config.client_key,
        "--certificate-authority": config.certificate_authority,
        "--client-ca-file": config.client_ca_file,
    }
    lacks = [
        f"{flag} {path} does not exist"
        for flag, path in named.items()
        if path is not None and not disk.at(path).is_file()
    ]
    lacks += _prepare_lacks(unit, disk)
    authorities = (config.certificate_authority, config.client_ca_file)
    start = RelayStart(
        data_dir=config.data_dir,
        keep_secrets=config.keep_secrets,
        key_lack=_key_lack(config.keep_secrets, config.data_dir, disk)
        or credential_lack(unit, disk),
        listen=config.listen,
        addresses=tuple(_addresses(unit, disk)),
        lacks=tuple(lacks),
    )
    return start, tuple(path for path in authorities if path is not None)


def _no_start(lack: str) -> RelayStart:
    return RelayStart(
        data_dir=None,
        keep_secrets=None,
        key_lack="",
        listen=Address("", 0),
        addresses=(),
        lacks=(lack,),
    )


def _arguments(command: Command) -> list[str] | None:
    """None where it is no relay-sidecar that is started."""
    words = list(command.words)
    if Path(command.program).name.startswith("python") and words[1:3] == ["-m", "relay_sidecar"]:
        words = words[2:]
    elif Path(command.program).name != "relay-sidecar":
        return None
    return words[2:] if words[1:2] == ["run"] else words[1:]


def _preparing(unit: Unit, disk: Disk) -> list[Command]:
    """`node prepare`, without which the relay does not start."""
    return [it for it in unit.commands("ExecStartPre", disk) if "prepare" in it.words]


def _addresses(unit: Unit, disk: Disk) -> Iterator[str]:
    for command in _preparing(unit, disk):
        told = command.flag("--pod-listen")
        if told:
            yield told.rpartition(":")[0].strip("[]")


def _prepare_lacks(unit: Unit, disk: Disk) -> Iterator[str]:
    for command in _preparing(unit, disk):
        data_dir = command.flag("--data-dir")
        lack = authority_lack(disk.at(data_dir)) if data_dir else ""
        if data_dir and lack:
            yield lack.replace(str(disk.at(data_dir)), data_dir)
        lack = program_lack("ip", disk) if command.flag("--pod-listen") else ""
        if lack:
            yield f"{lack}, and it sets the address of --pod-listen"


def _key_lack(path: Path | None, data_dir: Path | None, disk: Disk) -> str:
    """A credential's own file is looked at with the unit: `credential_lack`."""
    if path is None or data_dir is None or str(path).startswith("%"):
        return ""
    try:
        read_key_file(disk.at(path), data_dir=disk.at(data_dir), credentials_dir=None)
    except BadInput as error:
        return str(error).replace(str(disk.at(path)), str(path))
    return ""


def credential_lack(unit: Unit, disk: Disk) -> str:
    """Why an encrypted credential that is decrypted before the start cannot be used, or ""."""
    for command in unit.commands("ExecStartPre", disk):
        if Path(command.program).name == "systemd-creds" and "decrypt" in command.words:
            source = Path(command.words[-2])
            try:
                encrypted_credential(disk.at(source), source, CREDENTIAL)
            except BadInput as error:
                return str(error)
    return ""


# ── the runtime ──


def _runtime(files: UnitFiles, name: str | None, disk: Disk) -> tuple[Path, Runtime | Unknown]:
    """And its configuration."""
    usual = Path("/etc/containerd/config.toml")
    if name != CONTAINERD:
        return usual, Unknown(f"the runtime of kubelet is {name or 'none that is known'}")
    command = _command(files, name, disk)
    if command is None or not command.program:
        return usual, Unknown(f"{name} starts nothing")
    if program_lack(command.program, disk):
        return usual, Unknown(program_lack(command.program, disk))
    told = command.flag("--config", "-c")
    return Path(told or usual), read_runtime(command.program, told, disk)


def _networks(
    folder: Path | None, runtime: Runtime | Unknown, disk: Disk
) -> Sequence[Network] | Unknown:
    most = runtime.max_networks if isinstance(runtime, Runtime) else 1
    if folder is not None:
        return networks(folder, most, Disk(Path("/")))
    if isinstance(runtime, Unknown):
        return Unknown(runtime.why)
    return networks(runtime.networks_folder, most, disk)


def _lacking_plugins(
    runtime: Runtime | Unknown, found: Sequence[Network] | Unknown, disk: Disk
) -> Iterator[tuple[str, str]]:
    if isinstance(runtime, Unknown):
        return
    called = [] if isinstance(found, Unknown) else [it for each in found for it in each.plugins]
    for name in dict.fromkeys((*runtime.own_plugins, *called)):
        lacks = [program_lack(str(it / name), disk) for it in runtime.plugin_folders]
        places = [disk.at(folder / name) for folder in runtime.plugin_folders]
        if all(lacks):
            yield name, next((it for it in lacks if not it.endswith("does not exist")), lacks[0])
        elif name == cni.STICKY and any(_is_passing(place) for place in places):
            yield name, f"{cni.PASSTHROUGH} has it give pods other addresses"


def _is_passing(plugin: Path) -> bool:
    return plugin.is_file() and plugin.with_name(cni.PASSTHROUGH.name).exists()
