"""The units of systemd: the relay before kubelet, and what is saved for the next start.

systemd.service(5), systemd.exec(5), systemd.path(5). Guarantees: no value with a control character
reaches a unit, and a word of a command stays one word, with its `%` and `$`; the relay runs in a
sandbox, in which it writes to its data directory only.

kubelet's key is root's alone, and is made so anew at each rotation: the relay runs as root with one
capability, to tell kubelet's process by its descriptors.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput

FOLDER: Final = Path("/etc/systemd/system")
RELAY: Final = "relay-sidecar.service"
SNAPSHOT: Final = "relay-sidecar-snapshot"
IPAM_GC: Final = "relay-sidecar-ipam-gc"
KUBELET_DROP_IN: Final = FOLDER / "kubelet.service.d" / "20-relay-sidecar.conf"
# Seconds; a relay that hangs is started anew within the 20 s that kubelet hardly notices. One that
# only waits for a processor says that it lives (edge_sidecars.runtime.systemd).
WATCHDOG: Final = 10
# A relay that leaks is restarted, not the node.
MEMORY_MAX: Final = "256M"
# Ten times what a unit has by default: what waits for the relay is the node.
CPU_WEIGHT: Final = 1000
# Which PrivateTmp= hides.
TEMPORARY: Final = (Path("/tmp"), Path("/var/tmp"))
# Where the key of an encrypted credential is while the relay runs: below /run, in memory.
_KEY_FOLDER: Final = "%t/relay-sidecar"
_SANDBOX: Final = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=CAP_SYS_PTRACE",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "PrivateDevices=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
)


def relay(
    program: Sequence[str],
    *,
    prepare: Sequence[str],
    flags: Sequence[str],
    credential: tuple[str, Path] | None,
    writes: Path | None = None,
    environment: Path | None = None,
) -> str:
    """`program` is what runs the relay, `prepare` what is done before; `credential`: the name and
    the encrypted file of the key of --keep-secrets; `writes`: the data directory; `environment`: a
    file with variables. Raises `BadInput` for a value that no unit can have."""
    load = list[str]()
    if credential is not None:
        name, path = credential
        flags = [*flags, f"--keep-secrets={_KEY_FOLDER}/{name}"]
        decrypt = _command("systemd-creds", "decrypt", f"--name={name}", str(path))
        # "-": without a key the relay serves all but Secrets and tokens; systemd would not start a
        # unit whose LoadCredentialEncrypted= fails.
        load = [
            "RuntimeDirectory=relay-sidecar",
            "RuntimeDirectoryMode=0700",
            f"ExecStartPre=-+{decrypt} {_KEY_FOLDER}/{name}",
            f"Environment=CREDENTIALS_DIRECTORY={_KEY_FOLDER}",
        ]
    start = _command(*program, *flags)
    if credential is not None:
        start = start.replace(f"%{_KEY_FOLDER}/", f"{_KEY_FOLDER}/")
    lines = [
        "[Unit]",
        "Description=Kubernetes API on this node, also without a cloud",
        "Before=kubelet.service",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        *load,
        # "+": outside of the sandbox. It sets the address for pods, and puts back what is in /run.
        f"ExecStartPre=+{_command(*program, *prepare)}",
        f"ExecStart={start}",
        *([] if environment is None else [f"EnvironmentFile={_path(environment)}"]),
        "Restart=always",
        "RestartSec=1",
        f"WatchdogSec={WATCHDOG}",
        "OOMScoreAdjust=-999",
        f"MemoryMax={MEMORY_MAX}",
        f"CPUWeight={CPU_WEIGHT}",
        "LimitCORE=0",
        "LimitNOFILE=65536",
        "UMask=0077",
        *_SANDBOX,
        *([] if writes is None else [f"ReadWritePaths={_quoted(_path(writes))}"]),
        *([] if _names_temporary(start) else ["PrivateTmp=yes"]),
        "",
        "[Install]",
        "WantedBy=multi-user.target kubelet.service",
        "",
    ]
    return "\n".join(lines)


def flag_of(unit: str, name: str) -> str | None:
    """The value of a flag in the ExecStart= of the relay's unit."""
    for line in unit.splitlines():
        if line.startswith("ExecStart="):
            words = [_unescaped(word) for word in words_of(line.removeprefix("ExecStart="))]
            for word, following in zip(words, [*words[1:], ""], strict=True):
                if word.startswith(f"{name}="):
                    return word.removeprefix(f"{name}=")
                if word == name:
                    return following
    return None


def words_of(command: str) -> list[str]:
    """Also of one that is none, as of a unit that somebody else wrote."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def kubelet_drop_in() -> str:
    """kubelet starts after the relay, and without it where it does not start."""
    return f"[Unit]\nWants={RELAY}\nAfter={RELAY}\n"


def snapshot(program: Sequence[str], *, data_dir: Path, watched: Sequence[Path]) -> dict[str, str]:
    """Units by name: what is saved whenever one of `watched` changes, but not where the relay's
    start puts it back: this waits for that, which comes after what all such units are before."""
    save = _command(*program, "node", "snapshot", f"--data-dir={data_dir}")
    changes = "\n".join(f"PathChanged={_path(path)}" for path in watched)
    order = f"DefaultDependencies=no\nAfter={RELAY}\nConflicts=shutdown.target\n"
    order += "Before=shutdown.target\n"
    path = f"[Unit]\nDescription=What a reboot must find\n{order}\n[Path]\n{changes}\n"
    sandbox = (
        f"NoNewPrivileges=yes\nProtectSystem=strict\nReadWritePaths={_quoted(_path(data_dir))}\n"
    )
    return {
        f"{SNAPSHOT}.path": f"{path}\n[Install]\nWantedBy=multi-user.target\n",
        f"{SNAPSHOT}.service": f"[Service]\nType=oneshot\nExecStart={save}\n{sandbox}",
    }


def ipam_gc(program: Sequence[str], *, data_dir: Path, kubeconfig: Path) -> dict[str, str]:
    """Units by name: reservations of pods that are gone end, minutes later."""
    flags = (f"--data-dir={data_dir}", f"--kubeconfig={kubeconfig}")
    work = _command(*program, "node", "ipam-gc", *flags)
    timer = "[Timer]\nOnBootSec=2min\nOnUnitActiveSec=2min\n\n[Install]\nWantedBy=timers.target\n"
    # host-local's files may be anywhere but in what ProtectSystem=full covers.
    sandbox = "NoNewPrivileges=yes\nProtectSystem=full\n"
    return {
        f"{IPAM_GC}.timer": f"[Unit]\nDescription=End the addresses of deleted pods\n\n{timer}",
        f"{IPAM_GC}.service": f"[Service]\nType=oneshot\nExecStart={work}\n{sandbox}",
    }


def enabled(texts: Mapping[str, str]) -> dict[Path, str]:
    """The symbolic links by which the units of these texts are enabled, as `systemctl enable`
    makes them: their targets by path."""
    found = {}
    for name, text in texts.items():
        for line in text.splitlines():
            if line.startswith("WantedBy="):
                for target in line.removeprefix("WantedBy=").split():
                    found[FOLDER / f"{target}.wants" / name] = str(FOLDER / name)
    return found


def environment(variables: Mapping[str, str]) -> str:
    """Of an EnvironmentFile=. Raises `BadInput`."""
    lines = []
    for name, value in variables.items():
        escaped = "".join(f"\\{it}" if it in '"\\`$' else it for it in checked(value))
        lines.append(f'{name}="{escaped}"\n')
    return "".join(lines)


def checked(value: str) -> str:
    """Raises `BadInput` for one that would be other lines of a unit, or none."""
    if not value.isprintable():
        raise BadInput(f"{value!r:.80} has a character that no unit of systemd can have: rename it")
    return value


def _command(*words: str) -> str:
    """As ExecStart= reads it: quoted, with `%` and `$` as they are. Raises `BadInput`."""
    return " ".join(_quoted(checked(word).replace("%", "%%").replace("$", "$$")) for word in words)


def _quoted(word: str) -> str:
    """systemd.syntax(7): quotes as in a shell, but C-style escapes also within single ones."""
    return shlex.quote(word.replace("\\", "\\\\"))


def _path(path: Path) -> str:
    """Of a setting that takes one path, as it is. Raises `BadInput`."""
    return checked(str(path)).replace("%", "%%")


def _unescaped(word: str) -> str:
    return word.replace("%%", "%").replace("$$", "$").replace("\\\\", "\\")


def _names_temporary(command: str) -> bool:
    words = [word.partition("=")[2] or word for word in command.split()]
    return any(
        Path(word.strip('"')).is_relative_to(folder) for word in words for folder in TEMPORARY
    )
