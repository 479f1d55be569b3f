"""Files that a node loses with its power and needs before it can ask anybody: saved when they
change, put back before kubelet starts.

flannel writes /run/flannel/subnet.env once it has spoken to the API server, and no sandbox of a pod
can be made before; kubelet waits ten seconds between two tries.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from relay_node.file_state import write_whole

# In the data directory.
FOLDER: Final = Path("snapshot")
SAVED: Final = (Path("/run/flannel/subnet.env"),)


def outdated(root: Path, data_dir: Path, files: Sequence[Path] = SAVED) -> list[Path]:
    """Those of which there is no copy, or another one; a file that is missing or empty leaves the
    copy as it is."""
    found: list[Path] = []
    for path in files:
        content, copy = _content(root, path), _copy(data_dir, path)
        if content and not (copy.is_file() and copy.read_bytes() == content):
            found.append(path)
    return found


def save(root: Path, data_dir: Path, files: Sequence[Path] = SAVED) -> list[Path]:
    """Returns which were saved."""
    saved = outdated(root, data_dir, files)
    for path in saved:
        write_whole(_copy(data_dir, path), _content(root, path), mode=0o600)
    return saved


def restore(root: Path, data_dir: Path, files: Sequence[Path] = SAVED) -> list[Path]:
    """Returns which were put back: those that are missing; what is there is newer."""
    restored: list[Path] = []
    for path in files:
        target, copy = root / path.relative_to("/"), _copy(data_dir, path)
        if copy.is_file() and not target.exists():
            write_whole(target, copy.read_bytes(), mode=0o644)
            restored.append(path)
    return restored


def _content(root: Path, path: Path) -> bytes:
    source = root / path.relative_to("/")
    return source.read_bytes() if source.is_file() else b""


def _copy(data_dir: Path, path: Path) -> Path:
    return data_dir / FOLDER / "_".join(path.parts[1:])
