"""Units of systemd as the disk has them, which is what a reboot goes by: not what systemd has
loaded, nor what is in /run.

Sources: systemd.unit(5), systemd.service(5), systemd.exec(5). Not read: generators, presets,
drop-ins by type or prefix of a name.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from relay_node.file_state import read_regular

# Highest priority first.
FOLDERS: Final = (
    *("/etc/systemd/system.control", "/etc/systemd/system", "/usr/local/lib/systemd/system"),
    *("/usr/lib/systemd/system", "/lib/systemd/system"),
)
NULL: Final = Path("/dev/null")
DEFAULT_TARGET: Final = "default.target"
# What starts another unit beside it.
_WANTS: Final = ("Wants", "Requires", "BindsTo", "Upholds")
# A unit does not start without these.
_NEEDS: Final = ("Requires", "BindsTo", "Requisite")
_PREFIXES: Final = "@-:+!|"
_TRUE: Final = frozenset({"1", "yes", "true", "on"})
# Links that are followed; Linux follows 40.
_MAX_LINKS: Final = 40


class Disk:
    """The files of a node below `root`, links included."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: Path | str) -> Path:
        """Where a path of the node is, with links followed inside of `root`."""
        place = self.root
        rest = list(Path(path).parts[1:])
        for _ in range(_MAX_LINKS * 4):
            if not rest:
                break
            place = place / rest.pop(0)
            if place.is_symlink():
                target = place.readlink()
                if target.is_absolute():
                    place, rest = self.root, [*target.parts[1:], *rest]
                else:
                    place, rest = place.parent, [*target.parts, *rest]
        return place

    def text(self, path: Path | str) -> str | None:
        """None where there is no such file that can be read as text."""
        try:
            return read_regular(self.at(path)).decode()
        except (OSError, UnicodeDecodeError):
            return None


@dataclass(frozen=True)
class Setting:
    section: str
    name: str
    value: str


@dataclass(frozen=True)
class Unit:
    """`files`: its own, then drop-ins. `is_masked`: nothing starts it."""

    name: str
    files: tuple[Path, ...]
    settings: tuple[Setting, ...]
    is_masked: bool = False

    def values(self, name: str, *, section: str = "Service") -> list[str]:
        """Of a setting that may be repeated; an empty one takes back those before."""
        found: list[str] = []
        for it in self.settings:
            if (it.section, it.name) == (section, name):
                found = [*found, it.value] if it.value else []
        return found

    def value(self, name: str, *, section: str = "Service") -> str:
        """The last one; "" for none."""
        return (self.values(name, section=section) or [""])[-1]

    def is_set(self, name: str) -> bool:
        return self.value(name).lower() in _TRUE

    def needed(self) -> list[str]:
        """Units without which it does not start."""
        return [unit for name in _NEEDS for unit in self._named(name)]

    def wanted(self) -> list[str]:
        """Units that are started with it, by its own settings."""
        return [unit for name in _WANTS for unit in self._named(name)]

    def _named(self, name: str) -> list[str]:
        return [unit for value in self.values(name, section="Unit") for unit in value.split()]

    @property
    def environment_files(self) -> list[tuple[Path, bool]]:
        """And whether each may be missing."""
        found = self.values("EnvironmentFile")
        return [(Path(each.removeprefix("-")), each.startswith("-")) for each in found]

    def environment(self, disk: Disk) -> dict[str, str]:
        found: dict[str, str] = {}
        for value in self.values("Environment"):
            found |= _assignments(_words(value))
        for path, _ in self.environment_files:
            lines = (disk.text(path) or "").splitlines()
            found |= _assignments(line.strip() for line in lines if not line.startswith("#"))
        return found

    def commands(self, name: str, disk: Disk) -> list["Command"]:
        """ExecStart=, ExecStartPre= and the like, with variables replaced."""
        variables = self.environment(disk)
        return [_command(value, variables) for value in self.values(name)]


@dataclass(frozen=True)
class Command:
    """`words`: the program first. `may_fail`: the unit starts all the same."""

    words: tuple[str, ...]
    may_fail: bool

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""

    def flag(self, *names: str) -> str | None:
        """Of the program, the last one: `--name=value`, or `--name value`."""
        found = None
        for word, following in pairwise([*self.words, ""]):
            name, has_value, value = word.partition("=")
            if name in names:
                found = value if has_value else following
        return found


class UnitFiles:
    """Of one node."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._units: dict[str, Unit | None] = {}

    def unit(self, name: str) -> Unit | None:
        """None where there is no such unit."""
        if name not in self._units:
            self._units[name] = self._read(name)
        return self._units[name]

    def started(self) -> set[str]:
        """Names of all that a boot starts."""
        found: set[str] = set()
        waiting = [DEFAULT_TARGET]
        while waiting:
            name = waiting.pop()
            unit = self.unit(name)
            if name in found or (unit is not None and unit.is_masked):
                continue
            found.add(name)
            if unit is not None:
                waiting += [*unit.wanted(), *self._linked(unit)]
        return found

    def _linked(self, unit: Unit) -> Iterator[str]:
        names = {unit.name, *(path.name for path in unit.files[:1])}
        for folder in FOLDERS:
            for name in names:
                for kind in ("wants", "requires", "upholds"):
                    place = self._disk.at(f"{folder}/{name}.{kind}")
                    if place.is_dir():
                        yield from (link.name for link in place.iterdir())

    def _read(self, name: str) -> Unit | None:
        fragment = self._fragment(name)
        if fragment is None:
            return None
        real = self._disk.at(fragment)
        if real == self._disk.at(NULL) or not real.stat().st_size:
            return Unit(name, (fragment,), (), is_masked=True)
        names = [name, real.name] if real.name != name else [name]
        files = (fragment, *self._drop_ins(names))
        settings = [it for path in files for it in _settings(self._disk.text(path) or "")]
        return Unit(name, files, tuple(settings))

    def _fragment(self, name: str) -> Path | None:
        stem, at, rest = name.partition("@")
        template = f"{stem}@.{rest.rpartition('.')[2]}" if at else name
        for each in dict.fromkeys((name, template)):
            for folder in FOLDERS:
                path = Path(folder) / each
                place = self._disk.at(path)
                if place == self._disk.at(NULL) or place.is_file():
                    return path
        return None

    def _drop_ins(self, names: Iterable[str]) -> list[Path]:
        """In the order of their names; a folder hides those of the same name in later ones."""
        found: dict[str, Path] = {}
        for folder in reversed(FOLDERS):
            for name in names:
                place = self._disk.at(f"{folder}/{name}.d")
                if place.is_dir():
                    found |= {
                        each.name: Path(folder) / f"{name}.d" / each.name
                        for each in place.iterdir()
                        if each.name.endswith(".conf")
                    }
        return [found[name] for name in sorted(found)]


def _settings(text: str) -> Iterator[Setting]:
    section, pending = "", ""
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("#", ";")):
            continue
        if bare.endswith("\\"):
            pending += bare[:-1] + " "
            continue
        whole, pending = pending + bare, ""
        if whole.startswith("[") and whole.endswith("]"):
            section = whole[1:-1]
            continue
        name, is_setting, value = whole.partition("=")
        if is_setting:
            yield Setting(section, name.strip(), value.strip())


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _assignments(words: Iterable[str]) -> dict[str, str]:
    pairs = (word.partition("=") for word in words)
    return {name: value.strip("\"'") for name, is_set, value in pairs if is_set}


def _command(value: str, variables: Mapping[str, str]) -> Command:
    bare = value.lstrip(_PREFIXES)
    may_fail = "-" in value[: len(value) - len(bare)]
    words = [part for word in _words(bare) for part in _replaced(word, variables)]
    return Command(tuple(words), may_fail)


def _replaced(word: str, variables: Mapping[str, str]) -> Sequence[str]:
    """`$NAME` alone becomes several words, `${NAME}` a part of one."""
    if word.startswith("$") and word[1:].isidentifier():
        return _words(variables.get(word[1:], ""))
    for name, value in variables.items():
        word = word.replace(f"${{{name}}}", value)
    return [word.replace("$$", "$").replace("%%", "%")]
