"""Changes of files on a node, all or none, that can be taken back as they were.

What was there is kept before anything is changed, with a record of both; so an installation that
was cut short anywhere can be repeated or taken back. Guarantees: A file that somebody else changed
since is never overwritten (it is named, with the copy of its original). Every file is there whole
or not at all, also after a power cut. Contents, modes, owners, symbolic links and folders are as
they were once all is taken back.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.process import VERSION
from relay_node import file_state
from relay_node.file_state import (
    LINK,
    FileChange,
    RecordedChange,
    state_of,
    write_whole,
)
from relay_node.installer.attempt import ATTEMPT, BACKUPS, FOLDER, RECORD, Attempt

# In the data directory: the relay's certificate with its key, and the node's own CA, which clients
# have to read.
SERVING: Final = Path("serving.pem")
PUBLIC_CA: Final = Path("public/ca.crt")
LEFTOVER: Final = FOLDER / "leftover.json"
# What reading a file of ours raises that is not as it was written.
_UNREADABLE: Final = (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError)


class Installation:
    """`root`: before every path of the node, "/" but for an image that is being built."""

    def __init__(self, root: Path, data_dir: Path) -> None:
        self._root = root
        self._data_dir = self.on_node(data_dir)

    def on_node(self, path: Path) -> Path:
        """Raises `BadInput` for one that is not absolute."""
        if not path.is_absolute():
            raise BadInput(f"{path} is relative to a folder of this moment: name it from / on")
        return self._root / path.relative_to("/")

    def recorded(self) -> dict[Path, RecordedChange]:
        """Raises `BadInput`."""
        try:
            changes = [RecordedChange.of(entry) for entry in self._record().get("files", ())]
        except (KeyError, TypeError, ValueError) as error:
            raise self._damaged(error) from error
        return {change.path: change for change in changes}

    def version(self) -> str:
        """Of the program that installed; "" where nothing is installed. Raises `BadInput`."""
        if not self.recorded():
            return ""
        return str(self._record().get("version", "an earlier version"))

    def options(self) -> dict[str, Any]:
        """As they were given when it was installed; of an earlier version none are known. Raises
        `BadInput`."""
        return _options(self._record().get("options"))

    def leftover(self) -> dict[str, Any]:
        """What an installation that was taken back had to leave: `files`, and the `options` of that
        installation. Raises `BadInput`."""
        path = self._data_dir / LEFTOVER
        try:
            found = json.loads(file_state.read(path) or b"{}")
            if not found:
                return {}
            files = [str(Path("/", it)) for it in found["files"]]
            return {"files": files, "options": _options(found.get("options"))}
        except _UNREADABLE as error:
            raise BadInput(f"{path} cannot be read: {error!r}; delete it") from error

    def leave(self, files: Sequence[Path], options: Mapping[str, Any]) -> None:
        """Raises `BadInput`."""
        content = {"files": list(map(str, files)), "options": dict(options)}
        try:
            write_whole(self._data_dir / LEFTOVER, json.dumps(content).encode(), mode=0o600)
        except OSError as error:
            raise again(error) from error

    def remove_leftover(self) -> list[Path]:
        """Returns what was removed. Raises `BadInput`."""
        removed = [Path(path) for path in self.leftover().get("files", ())]
        try:
            for path in removed:
                self.on_node(path).unlink(missing_ok=True)
            (self._data_dir / LEFTOVER).unlink(missing_ok=True)
        except OSError as error:
            raise again(error) from error
        return removed

    def interrupted(self) -> Attempt | None:
        """An installation that was cut short. Raises `BadInput`."""
        return Attempt.read(self._root, self._data_dir)

    def deviating(self) -> list[RecordedChange]:
        """Files that are not as they were installed. Raises `BadInput`."""
        return [it for it in self.recorded().values() if not self._is_as_installed(it)]

    def _is_as_installed(self, change: RecordedChange) -> bool:
        try:
            return self._state(change) == change.after
        except BadInput:
            return False

    def original(self, path: Path) -> bytes | None:
        """What `path` held before the installation, or holds where it is no part of one. Raises
        `BadInput`."""
        change = self.recorded().get(path)
        if change is None:
            return self._read(path)
        return self._kept(change)

    def _read(self, path: Path) -> bytes | None:
        try:
            return file_state.read(self.on_node(path))
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}; name another file") from error

    def backup(self, change: RecordedChange) -> Path:
        """Where the content before the installation is; only for what was there."""
        return self._data_dir / BACKUPS / change.backup

    def original_mode(self, path: Path, default: int) -> int:
        """As `original`; `default` where there was no file."""
        change = self.recorded().get(path)
        if change is not None:
            return change.mode if change.backup else default
        try:
            return self.on_node(path).stat().st_mode & 0o7777
        except OSError:
            return default

    def pending(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Those that would change something: of the files that are to be there, and of those of an
        earlier installation that are not any more. Raises `BadInput` for what others changed."""
        recorded = self.recorded()
        self._check_untouched(recorded.values())
        wanted = {change.path for change in changes}
        dropped = [self._undoing(change) for path, change in recorded.items() if path not in wanted]
        return [
            change
            for change in (*changes, *dropped)
            if self._state_of(change.path, is_link=bool(change.link)) != change.digest
        ]

    def install(self, changes: Sequence[FileChange]) -> list[FileChange]:
        """Returns what was changed. Raises `BadInput`, with everything as it was."""
        self.take_back()
        pending = self.pending(changes)
        attempt = self.begin(pending)
        try:
            attempt.apply(pending)
            attempt.commit(self.record_of(changes, attempt))
        except OSError as error:
            with suppress(OSError):
                attempt.put_files_back()
                attempt.end()
            raise failed(error) from error
        return pending

    def take_back(self) -> None:
        """The files of an installation that was cut short. Raises `BadInput`."""
        left = self.interrupted()
        if left is not None:
            try:
                left.put_files_back()
                left.end()
            except OSError as error:
                raise again(error) from error

    def begin(self, pending: Sequence[FileChange]) -> Attempt:
        """From here on `pending` may be changed. Raises `BadInput`, with nothing changed."""
        try:
            kept = self._entries()
            folders = file_state.missing_folders([self._data_dir / ATTEMPT])
            try:
                return Attempt.begin(self._root, self._data_dir, pending, kept)
            except OSError:
                self._forget(kept, folders)
                raise
        except OSError as error:
            raise failed(error) from error

    def record_of(
        self,
        changes: Sequence[FileChange],
        attempt: Attempt,
        options: Mapping[str, Any] | None = None,
    ) -> bytes:
        """What is to be taken back once: of each path what was there before the first
        installation."""
        recorded, now = self.recorded(), {change.path: change for change in attempt.files}
        left = set(self.leftover().get("files", ()))
        entries = list[dict[str, Any]]()
        for change in changes:
            known = recorded.get(change.path) or now.get(change.path)
            if known is None:
                # It was there, as it is wanted: by hand, or of an installation that was lost.
                path = self.on_node(change.path)
                known = file_state.record(change, path, self._data_dir / BACKUPS)
            entry = {**known.entry(), "after": change.digest}
            if str(change.path) in left:
                # Of an installation before: there was nothing of the node's own.
                entry |= {"before": "", "backup": "", "link": ""}
            entries.append(entry)
        folders = {*self._record().get("folders", ()), *map(str, attempt.folders)}
        content = {
            "version": VERSION,
            "files": entries,
            "folders": sorted(folders),
            "options": dict(self.options() if options is None else options),
        }
        return json.dumps(content, indent=2).encode()

    def uninstall(self, *, is_forced: bool = False, leaves: Collection[Path] = ()) -> list[Path]:
        """Returns what was put back or removed: all but `leaves`, which stay as they are. Raises
        `BadInput`, with nothing changed."""
        self.take_back()
        recorded = {path: change for path, change in self.recorded().items() if path not in leaves}
        if not is_forced:
            self._check_untouched(recorded.values())
        try:
            for change in reversed(recorded.values()):
                path = self.on_node(change.path)
                file_state.put_back(change, path, self._data_dir / BACKUPS)
            folders = self._record().get("folders", ())
            (self._data_dir / RECORD).unlink(missing_ok=True)
            file_state.remove_folders(map(Path, folders))
        except OSError as error:
            raise again(error) from error
        return list(recorded)

    # ── files ──

    def _record(self) -> dict[str, Any]:
        try:
            content = file_state.read(self._data_dir / RECORD)
            found = {} if content is None else json.loads(content)
            if not isinstance(found, dict):
                raise ValueError("it is no mapping")
        except (OSError, ValueError, RecursionError) as error:
            raise self._damaged(error) from error
        return found

    def _damaged(self, error: Exception) -> BadInput:
        return BadInput(
            f"{self._data_dir / RECORD} cannot be read: {error}; put the files of "
            f"{self._data_dir / BACKUPS} back by hand, delete it, and install again"
        )

    def _check_untouched(self, changes: Iterable[RecordedChange]) -> None:
        for change in changes:
            if self._state(change) not in (change.before, change.after):
                original = f"its original is {self.backup(change)}"
                raise BadInput(
                    f"{change.path} was changed by hand since the installation: "
                    f"{original if change.backup else 'it was not there before'}; put it back, or "
                    "take all back with `relay-sidecar node uninstall --force`"
                )

    def _state(self, change: RecordedChange) -> str:
        return self._state_of(change.path, is_link=change.after.startswith(LINK))

    def _state_of(self, path: Path, *, is_link: bool) -> str:
        """Raises `BadInput` for what is neither a file nor such a link: a unit that is masked, or a
        folder."""
        try:
            return state_of(self.on_node(path), is_link=is_link)
        except OSError as error:
            raise BadInput(f"{path}: {error.strerror or error}; move it away") from error

    def _undoing(self, change: RecordedChange) -> FileChange:
        link = change.link if change.after.startswith(LINK) else ""
        return FileChange(change.path, None if link else self._kept(change), change.mode, link)

    def _kept(self, change: RecordedChange) -> bytes | None:
        if not change.backup:
            return None
        backup = self.backup(change)
        try:
            return file_state.read_regular(backup)
        except OSError as error:
            raise BadInput(
                f"{backup}, what {change.path} was, cannot be read: {error.strerror or error}; put "
                "it there again, from a copy of the disk"
            ) from error

    def _entries(self) -> list[str]:
        try:
            return sorted(path.name for path in self._data_dir.iterdir())
        except FileNotFoundError:
            return []

    def _forget(self, kept: Collection[str], folders: Iterable[Path]) -> None:
        """An attempt that did not begin."""
        Attempt(
            self._root,
            self._data_dir,
            {
                "record": None,
                "files": [],
                "folders": list(map(str, folders)),
                "data": [*kept, *(["node"] if self.recorded() else [])],
                "facts": {},
            },
        ).end()


def _options(found: object) -> dict[str, Any]:
    """Those that are what `NodeOptions.recorded` writes."""
    if not isinstance(found, dict):
        return {}
    return {
        name: it for name, it in found.items() if isinstance(it, list if name == "flags" else str)
    }


def failed(error: OSError) -> BadInput:
    return BadInput(f"{error.filename}: {error.strerror or error}; nothing is changed")


def again(error: OSError) -> BadInput:
    return BadInput(f"{error.filename}: {error.strerror or error}; run it again")
