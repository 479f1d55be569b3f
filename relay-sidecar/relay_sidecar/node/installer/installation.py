"""Changes of files on a node, all or none, that can be taken back as they were.

What was there is kept before anything is changed, with a record of both; so an installation that
was cut short anywhere can be repeated or taken back. Guarantees: a file that somebody else changed
since is never overwritten (it is named, with the copy of its original); every file is there whole
or not at all, also after a power cut.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.process import VERSION

# In the data directory.
FOLDER: Final = Path("node")
RECORD: Final = FOLDER / "installed.json"
BACKUPS: Final = FOLDER / "backup"
# The relay's certificate with its key, and the node's own CA, which clients have to read.
SERVING: Final = Path("serving.pem")
PUBLIC_CA: Final = Path("public/ca.crt")


@dataclass(frozen=True)
class FileChange:
    """`content`: None removes the file."""

    path: Path
    content: bytes | None
    mode: int = 0o644


@dataclass(frozen=True)
class RecordedChange:
    """SHA-256 of a file before and after; "" where there is none. `backup`: of what was before."""

    path: Path
    before: str
    after: str
    mode: int
    backup: str

    @classmethod
    def of(cls, entry: dict[str, Any]) -> "RecordedChange":
        return cls(
            Path(entry["path"]), entry["before"], entry["after"], entry["mode"], entry["backup"]
        )

    def entry(self) -> dict[str, Any]:
        return {**self.__dict__, "path": str(self.path)}


class Installation:
    """`root`: before every path of the node, "/" but for an image that is being built."""

    def __init__(self, root: Path, data_dir: Path) -> None:
        self._root = root
        self._data_dir = self.on_node(data_dir)

    def on_node(self, path: Path) -> Path:
        return self._root / path.relative_to("/")

    def recorded(self) -> dict[Path, RecordedChange]:
        """Raises `BadInput`."""
        record = self._data_dir / RECORD
        try:
            found = json.loads(record.read_bytes())
            changes = [RecordedChange.of(entry) for entry in found["files"]]
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(
                f"{record} cannot be read: {error}; put the files of {self._data_dir / BACKUPS} "
                "back by hand, delete it, and install again"
            ) from error
        return {change.path: change for change in changes}

    def version(self) -> str:
        """Of the program that installed; "" where nothing is installed. Raises `BadInput`."""
        if not self.recorded():
            return ""
        found = json.loads((self._data_dir / RECORD).read_bytes())
        return str(found.get("version", "an earlier version"))

    def deviating(self) -> list[RecordedChange]:
        """Files that are not as they were installed. Raises `BadInput`."""
        return [
            change
            for change in self.recorded().values()
            if _digest(_read(self.on_node(change.path))) != change.after
        ]

    def original(self, path: Path) -> bytes | None:
        """What `path` held before the installation, or holds where it is no part of one."""
        change = self.recorded().get(path)
        if change is None:
            return _read(self.on_node(path))
        return self._kept(change)

    def backup(self, change: RecordedChange) -> Path:
        """Where the content before the installation is; only for what was there."""
        return self._data_dir / BACKUPS / change.backup

    def pending(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Those that would change something: of the files that are to be there, and of those of an
        earlier installation that are not any more. Raises `BadInput` for what others changed."""
        recorded = self.recorded()
        self._check_untouched(recorded.values())
        wanted = {change.path for change in changes}
        dropped = [
            FileChange(path, self._kept(change), change.mode)
            for path, change in recorded.items()
            if path not in wanted
        ]
        return [
            change
            for change in (*changes, *dropped)
            if _read(self.on_node(change.path)) != change.content
        ]

    def install(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Returns what was changed. Raises `BadInput`, with everything as it was."""
        recorded = self.recorded()
        done: list[FileChange] = []
        try:
            pending = self.pending(changes)
            self._write_record([self._record(change, recorded) for change in changes], recorded)
            for change in pending:
                before = _read(self.on_node(change.path))
                done.append(FileChange(change.path, before, change.mode))
                self._apply(change)
        except OSError as error:
            for undo in reversed(done):
                with suppress(OSError):
                    self._apply(undo)
            raise BadInput(
                f"{error.filename}: {error.strerror or error}; nothing is changed"
            ) from error
        return pending

    def uninstall(self, *, is_forced: bool = False) -> list[Path]:
        """Returns what was put back or removed. Raises `BadInput`, with nothing changed."""
        recorded = self.recorded()
        if not is_forced:
            self._check_untouched(recorded.values())
        try:
            for change in recorded.values():
                self._apply(FileChange(change.path, self._kept(change), change.mode))
            with suppress(FileNotFoundError):
                (self._data_dir / RECORD).unlink()
        except OSError as error:
            raise BadInput(f"{error.filename}: {error.strerror or error}; run it again") from error
        return list(recorded)

    # ── files ──

    def _check_untouched(self, changes: Iterable[RecordedChange]) -> None:
        for change in changes:
            if _digest(_read(self.on_node(change.path))) not in (change.before, change.after):
                original = f"its original is {self.backup(change)}"
                raise BadInput(
                    f"{change.path} was changed by hand since the installation: "
                    f"{original if change.backup else 'it was not there before'}; put it back, or "
                    "take all back with `relay-sidecar node uninstall --force`"
                )

    def _record(self, change: FileChange, recorded: dict[Path, RecordedChange]) -> RecordedChange:
        known = recorded.get(change.path)
        if known is not None:
            return RecordedChange(
                change.path, known.before, _digest(change.content), known.mode, known.backup
            )
        path = self.on_node(change.path)
        before = _read(path)
        backup, mode = "", change.mode
        if before is not None:
            backup, mode = f"{_digest(before)[:12]}-{path.name}", path.stat().st_mode & 0o7777
            write_whole(self._data_dir / BACKUPS / backup, before, mode=0o600)
        return RecordedChange(change.path, _digest(before), _digest(change.content), mode, backup)

    def _write_record(
        self, changes: Sequence[RecordedChange], recorded: dict[Path, RecordedChange]
    ) -> None:
        """Also of files of an earlier installation, until they are as they were."""
        wanted = {change.path for change in changes}
        left = [change for path, change in recorded.items() if path not in wanted]
        entries = [change.entry() for change in (*changes, *left)]
        content = json.dumps({"version": VERSION, "files": entries}, indent=2).encode()
        write_whole(self._data_dir / RECORD, content, mode=0o600)

    def _kept(self, change: RecordedChange) -> bytes | None:
        if not change.backup:
            return None
        return self.backup(change).read_bytes()

    def _apply(self, change: FileChange) -> None:
        path = self.on_node(change.path)
        if change.content is not None:
            write_whole(path, change.content, mode=change.mode)
            return
        with suppress(FileNotFoundError):
            path.unlink()


def write_whole(path: Path, content: bytes, *, mode: int) -> None:
    """Also over a power cut: whole or not at all. Raises OSError."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with suppress(FileNotFoundError):
        fresh.unlink()
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    fresh.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()
