"""An installation that is not whole yet, recorded on disk before it changes anything.

Guarantee: wherever it was cut short, by an error, a kill or a power cut, what it found is put back
from that record, any number of times. That is contents, modes, owners, links, folders, the record
of an earlier installation, and what the relay wrote into a data directory that it had not before.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.values import BadInput
from edge_sidecars.runtime.process import VERSION
from relay_node import file_state
from relay_node.file_state import FileChange, RecordedChange, write_whole

# In the data directory.
FOLDER: Final = Path("node")
RECORD: Final = FOLDER / "installed.json"
ATTEMPT: Final = FOLDER / "attempt.json"
BACKUPS: Final = FOLDER / "backup"
# What relay and installation make in a data directory; of other names nothing is removed.
_OURS: Final = ("ca.key", "serving.pem", "public", "cni", "snapshot", "journal", FOLDER.name)


class Attempt:
    """`root`: before every path of the node; `data_dir` is below it. `content`: as on disk."""

    def __init__(self, root: Path, data_dir: Path, content: dict[str, Any]) -> None:
        self._root = root
        self._data_dir = data_dir
        self._content = content
        self.files = [RecordedChange.of(entry) for entry in content["files"]]

    @classmethod
    def begin(
        cls, root: Path, data_dir: Path, pending: Sequence[FileChange], kept: Sequence[str]
    ) -> "Attempt":
        """Keeps what lies at the paths that are to change. `kept`: the data directory's entries so
        far. Raises OSError."""
        paths = [root / change.path.relative_to("/") for change in pending]
        folders = file_state.missing_folders(paths)
        files = [
            file_state.record(change, path, data_dir / BACKUPS)
            for change, path in zip(pending, paths, strict=True)
        ]
        before = file_state.read(data_dir / RECORD)
        content: dict[str, Any] = {
            "version": VERSION,
            "record": None if before is None else before.decode(),
            "files": [change.entry() for change in files],
            "folders": [str(folder) for folder in folders],
            "data": list(kept),
            "facts": {},
        }
        attempt = cls(root, data_dir, content)
        attempt._write()
        return attempt

    @classmethod
    def read(cls, root: Path, data_dir: Path) -> "Attempt | None":
        """One that was cut short. Raises `BadInput`."""
        path = data_dir / ATTEMPT
        try:
            content = file_state.read(path)
            return None if content is None else cls(root, data_dir, json.loads(content))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadInput(
                f"{path} cannot be read: {error}; put the files of {data_dir / BACKUPS} back by "
                "hand, and delete it"
            ) from error

    @property
    def is_first(self) -> bool:
        """Nothing was installed before."""
        return self._content["record"] is None

    @property
    def folders(self) -> list[Path]:
        """That it had to make; below the root."""
        return [Path(folder) for folder in self._content["folders"]]

    @property
    def facts(self) -> dict[str, Any]:
        """What else has to be put back, by the step that changes it."""
        found: dict[str, Any] = self._content["facts"]
        return found

    def note(self, **facts: Any) -> None:
        """Durably, before that is done. Raises OSError."""
        self.facts.update(facts)
        self._write()

    def apply(self, changes: Iterable[FileChange]) -> None:
        """Raises OSError."""
        for change in changes:
            file_state.apply(change, self._root / change.path.relative_to("/"))

    def commit(self, record: bytes) -> None:
        """From here on it is the installation. Raises OSError."""
        write_whole(self._data_dir / RECORD, record, mode=0o600)
        (self._data_dir / ATTEMPT).unlink()

    def put_files_back(self) -> None:
        """What came last first: kubelet's kubeconfig before what it leads to. Raises OSError."""
        for change in reversed(self.files):
            path = self._root / change.path.relative_to("/")
            file_state.put_back(change, path, self._data_dir / BACKUPS)
        before = self._content["record"]
        if before is None:
            (self._data_dir / RECORD).unlink(missing_ok=True)
        elif file_state.read(self._data_dir / RECORD) != before.encode():
            write_whole(self._data_dir / RECORD, before.encode(), mode=0o600)
        self._remove_folders()

    def end(self) -> None:
        """All is as it was: removes what is only of this attempt, its record last."""
        kept = self._content["data"]
        if self.is_first:
            for name in _OURS:
                if name not in kept and name != FOLDER.name:
                    _remove(self._data_dir / name)
        (self._data_dir / ATTEMPT).unlink(missing_ok=True)
        if self.is_first and FOLDER.name not in kept:
            _remove(self._data_dir / FOLDER)
        self._remove_folders()

    def _remove_folders(self) -> None:
        file_state.remove_folders(self.folders)

    def _write(self) -> None:
        content = json.dumps(self._content, indent=2).encode()
        write_whole(self._data_dir / ATTEMPT, content, mode=0o600)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
