"""The units of systemd: the relay before kubelet, and what is saved for the next start.

systemd.service(5), systemd.exec(5), systemd.path(5).
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

FOLDER: Final = Path("/etc/systemd/system")
RELAY: Final = "relay-sidecar.service"
SNAPSHOT: Final = "relay-sidecar-snapshot"
IPAM_GC: Final = "relay-sidecar-ipam-gc"
KUBELET_DROP_IN: Final = FOLDER / "kubelet.service.d" / "20-relay-sidecar.conf"
# Seconds; a relay that hangs is started anew within the 20 s that kubelet hardly notices.
WATCHDOG: Final = 10
# A relay that leaks is restarted, not the node.
MEMORY_MAX: Final = "256M"


def relay(
    program: Sequence[str],
    *,
    prepare: Sequence[str],
    flags: Sequence[str],
    credential: tuple[str, Path] | None,
) -> str:
    """`program` is what runs the relay, `prepare` what is done before; `credential`: the name and
    the encrypted file of the key of --keep-secrets."""
    start, load = _command(*program, *flags), list[str]()
    if credential is not None:
        name, path = credential
        load = [f"LoadCredentialEncrypted={name}:{path}"]
        # %d: the directory in which systemd puts it.
        start += f" --keep-secrets=%d/{name}"
    lines = [
        "[Unit]",
        "Description=Kubernetes API on this node, also without a cloud",
        "Before=kubelet.service",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=notify",
        f"ExecStartPre={_command(*program, *prepare)}",
        f"ExecStart={start}",
        *load,
        "Restart=always",
        "RestartSec=1",
        f"WatchdogSec={WATCHDOG}",
        "OOMScoreAdjust=-999",
        f"MemoryMax={MEMORY_MAX}",
        "LimitCORE=0",
        "LimitNOFILE=65536",
        "UMask=0077",
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
            words = [_unescaped(word) for word in shlex.split(line.removeprefix("ExecStart="))]
            for word, following in zip(words, [*words[1:], ""], strict=True):
                if word.startswith(f"{name}="):
                    return word.removeprefix(f"{name}=")
                if word == name:
                    return following
    return None


def kubelet_drop_in() -> str:
    """kubelet starts after the relay, and without it where it does not start."""
    return f"[Unit]\nWants={RELAY}\nAfter={RELAY}\n"


def snapshot(program: Sequence[str], *, data_dir: Path, watched: Sequence[Path]) -> dict[str, str]:
    """Units by name: what is saved whenever one of `watched` changes, but not where the relay's
    start puts it back: this waits for that, which comes after what all such units are before."""
    save = _command(*program, "node", "snapshot", f"--data-dir={data_dir}")
    changes = "\n".join(f"PathChanged={path}" for path in watched)
    order = f"DefaultDependencies=no\nAfter={RELAY}\nConflicts=shutdown.target\n"
    order += "Before=shutdown.target\n"
    path = f"[Unit]\nDescription=What a reboot must find\n{order}\n[Path]\n{changes}\n"
    return {
        f"{SNAPSHOT}.path": f"{path}\n[Install]\nWantedBy=multi-user.target\n",
        f"{SNAPSHOT}.service": f"[Service]\nType=oneshot\nExecStart={save}\n",
    }


def ipam_gc(program: Sequence[str], *, data_dir: Path, kubeconfig: Path) -> dict[str, str]:
    """Units by name: reservations of pods that are gone end, minutes later."""
    flags = (f"--data-dir={data_dir}", f"--kubeconfig={kubeconfig}")
    work = _command(*program, "node", "ipam-gc", *flags)
    timer = "[Timer]\nOnBootSec=2min\nOnUnitActiveSec=2min\n\n[Install]\nWantedBy=timers.target\n"
    return {
        f"{IPAM_GC}.timer": f"[Unit]\nDescription=End the addresses of deleted pods\n\n{timer}",
        f"{IPAM_GC}.service": f"[Service]\nType=oneshot\nExecStart={work}\n",
    }


def _command(*words: str) -> str:
    """As ExecStart= reads it: quoted, with `%` and `$` as they are."""
    return " ".join(shlex.quote(word.replace("%", "%%").replace("$", "$$")) for word in words)


def _unescaped(word: str) -> str:
    return word.replace("%%", "%").replace("$$", "$")
