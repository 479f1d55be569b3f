"""Whether one service of a node starts at a boot, as the disk has it now.

What a unit's files cannot show the unit itself does: one that was started after its files
were changed last has shown that it starts with them.
"""

import os
import pwd
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relay_node.doctor.machine.unit_files import Command, Disk, Unit, UnitFiles

# Where systemd looks for a program without a folder (systemd.exec(5)).
_PATH: Final = (*("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),)
# Bytes in which Linux looks for the interpreter of a script (linux/binfmts.h, BINPRM_BUF_SIZE).
_SHEBANG: Final = 256
_STARTING: Final = ("ExecCondition", "ExecStartPre", "ExecStart")
_CREDENTIALS: Final = ("LoadCredential", "LoadCredentialEncrypted")
# Seconds; how exact the time of a change is (Linux: a tick).
_GRANULARITY: Final = 0.01
# Units that are no files: systemd makes them.
_MADE: Final = (".slice", ".mount", ".device", ".swap", ".scope", ".automount", ".target")


@dataclass(frozen=True)
class Run:
    """What systemd says of it now. `started_at`: Unix time, of the process that runs; None where
    none does. `is_outdated`: its files changed since systemd read them."""

    state: str
    started_at: float | None
    is_outdated: bool

    @property
    def is_failing(self) -> bool:
        """It was started, again and again, and does not stay."""
        return self.state in ("failed", "auto-restart")


@dataclass(frozen=True)
class Service:
    """`lacks`: why it does not start at a boot; `doubts`: why it may not. `unproven`: files that
    were changed since it was started, so that it is not known whether it starts with them. `run`
    None: systemd was not asked."""

    name: str
    unit: Unit | None
    command: Command | None
    lacks: tuple[str, ...]
    unproven: tuple[Path, ...]
    run: Run | None
    doubts: tuple[str, ...] = ()


def service(
    name: str,
    files: UnitFiles,
    disk: Disk,
    started: Collection[str],
    run: Run | None,
    *,
    more_files: Collection[Path] = (),
) -> Service:
    """`started`: what a boot starts; `more_files`: which it reads as it starts."""
    unit = files.unit(name)
    if unit is None:
        return Service(name, None, None, (f"there is no unit {name}",), (), run)
    if unit.is_masked:
        return Service(name, unit, None, ("it is masked",), (), run)
    lacks = list(_lacks(unit, disk))
    if name not in started:
        lacks.insert(0, "nothing starts it at a boot: it is not enabled")
    commands = unit.commands("ExecStart", disk)
    unproven = () if run is None else tuple(_changed(unit, more_files, disk, run))
    return Service(
        name,
        unit,
        commands[0] if commands else None,
        tuple(lacks),
        unproven,
        run,
        doubts=tuple(_missing(unit, files)),
    )


def program_lack(program: str, disk: Disk) -> str:
    """Why it cannot be run; "" where it can."""
    if not program.startswith("/"):
        places = [f"{folder}/{program}" for folder in _PATH]
        program = next((each for each in places if disk.at(each).is_file()), "")
        if not program:
            return f"{Path(places[0]).name} is in no folder of programs"
    place = disk.at(program)
    if not place.is_file():
        return f"{program} does not exist"
    if not os.access(place, os.X_OK):
        return f"{program} cannot be executed"
    if Path(program).name == "false":
        return f"{program} ends at once, with failure"
    return _content_lack(program, place, disk)


def _content_lack(program: str, place: Path, disk: Disk) -> str:
    """A script outlives its interpreter, as by an upgrade of Python, for as long as it runs."""
    try:
        with place.open("rb") as file:
            beginning = file.read(_SHEBANG)
    except OSError:
        return ""  # Not for who asks: it may be executed all the same.
    if not beginning:
        return f"{program} is empty"
    words = beginning[2:].partition(b"\n")[0].decode(errors="replace").split()
    if not (beginning.startswith(b"#!") and words) or disk.at(words[0]).is_file():
        return ""
    return f"{words[0]}, which runs {program}, does not exist"


def _lacks(unit: Unit, disk: Disk) -> Iterator[str]:
    if not unit.commands("ExecStart", disk):
        yield "it has no ExecStart="
    for setting in _STARTING:
        for command in unit.commands(setting, disk):
            lack = program_lack(command.program, disk)
            if lack and not command.may_fail:
                yield f"{setting}= {lack}"
    yield from _conditions(unit, disk)
    for path, may_miss in unit.environment_files:
        if not may_miss and not disk.at(path).is_file():
            yield f"EnvironmentFile= {path} does not exist"
    for name in _CREDENTIALS:
        for value in unit.values(name):
            source = value.partition(":")[2]
            if source.startswith("/") and not disk.at(source).exists():
                yield f"{name}= {source} does not exist"
    folder = unit.value("WorkingDirectory")
    if folder.startswith("/") and not disk.at(folder).is_dir():
        yield f"WorkingDirectory= {folder} does not exist"
    if unit.is_set("PrivateNetwork"):
        yield "PrivateNetwork= keeps it from everything else on the node"
    user = unit.value("User")
    if user and not user.isdigit() and not _is_user(user, disk):
        yield f"User= {user} does not exist"


def _is_user(name: str, disk: Disk) -> bool:
    if disk.root != Path("/"):
        lines = (disk.text("/etc/passwd") or "").splitlines()
        return any(line.partition(":")[0] == name for line in lines)
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _conditions(unit: Unit, disk: Disk) -> Iterator[str]:
    """A condition that is not met leaves a unit unstarted, an assertion fails it. Of those with a
    `|` before them one has to be met: left to the unit itself."""
    for kind in ("Condition", "Assert"):
        for what in ("PathExists", "PathIsDirectory", "FileNotEmpty"):
            name = f"{kind}{what}"
            for value in unit.values(name, section="Unit"):
                is_not = value.startswith("!")
                if "|" not in value and _holds(what, value.lstrip("!"), disk) is is_not:
                    yield f"{name}={value} does not hold"


def _holds(what: str, path: str, disk: Disk) -> bool:
    place = disk.at(path)
    if what == "PathIsDirectory":
        return place.is_dir()
    if what == "FileNotEmpty":
        return place.is_file() and place.stat().st_size > 0
    return place.exists()


def _missing(unit: Unit, files: UnitFiles) -> Iterator[str]:
    """systemd 252 starts it at a boot in spite of that, and refuses to by hand."""
    for name in unit.needed():
        if not name.endswith(_MADE):
            needed = files.unit(name)
            if needed is None or needed.is_masked:
                state = "missing" if needed is None else "masked"
                yield f"{name}, which it requires, is {state}"


def _changed(unit: Unit, more: Collection[Path], disk: Disk, run: Run) -> list[Path]:
    """The unit's own, where systemd alone knows that they changed."""
    if run.started_at is None:
        return []
    read = (*unit.files, *(path for path, _ in unit.environment_files), *more)
    since = run.started_at + _GRANULARITY
    places = ((path, disk.at(path)) for path in dict.fromkeys(read))
    found = [path for path, place in places if place.exists() and place.stat().st_ctime > since]
    return found or (list(unit.files) if run.is_outdated else [])
