"""Files of the node below the directories that LC may use, by the paths that the node's people use.

Owns where a path leads. Links are followed as on the node, as far as they stay inside. Guarantees:
Whatever a path, its links, or somebody who renames at the same moment says, nothing outside of the
files roots is opened, made, replaced or removed, and nothing that is LC's own. With `within` that
holds for this one directory. Only regular files are opened: a FIFO, a device or a socket is never
touched. A file is replaced as a whole or not at all; what is made has the owner and the mode of the
directory that holds it.

How: each part of a path is opened for itself, relative to the directory before it and never through
a link (openat(2), O_NOFOLLOW); `..` of a link leads back to the directory that was passed. What was
opened cannot be exchanged any more; it is closed as soon as the way leads elsewhere. openat2(2)
would refuse links to absolute paths that stay inside, which nodes have.
"""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

# As Linux has it (path_resolution(7), NAME_MAX).
MAX_LINKS = 40
# Directories of one path that are open at a time: a job's author chooses how deep it is.
MAX_DEPTH = 128
MAX_NAME = 255
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_BITS = 0o7777
# A file is no program.
_FILE_BITS = 0o666


class ForeignPath(Exception):
    """It lies, or leads, where LC may not go; the message says whither, and the remedy."""


class NotAFile(Exception):
    """It is no regular file; the message says what it is."""


class HostFiles:
    """`mount`: where the node's / is, as LC sees it; `roots`: directories of the node below it.
    `own`: LC's directory; of its entries those with an own name are LC's alone."""

    def __init__(
        self,
        mount: Path,
        roots: Sequence[PurePosixPath] = (PurePosixPath("/"),),
        *,
        own: Path | None = None,
        is_own_name: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.mount = mount
        self._roots = tuple(sorted(roots, key=lambda it: len(it.parts), reverse=True))
        self._own = own
        self._is_own_name = is_own_name

    def open(self, path: str, *, within: str = "") -> int:
        """A descriptor for reading. Raises `ForeignPath`, `NotAFile`, OSError."""
        with _naming(path), _Walk(self, path, within) as walk:
            found = walk.found()
            _check_regular(found, path)
            # The very file that was looked at, whatever has its name by now (proc(5)).
            return os.open(f"/proc/self/fd/{found}", _READ)

    def write(self, path: str, chunks: Iterable[bytes], *, within: str = "") -> None:
        """Makes the directories above it; of a link to a file it replaces the file. Raises
        `ForeignPath`, OSError, and what `chunks` raise."""
        with _Walk(self, path, within, makes=True) as walk:
            with _naming(path):
                folder, name = walk.entry()
            self._replace(folder, name, chunks, path)

    def make_folder(self, path: str, *, within: str = "") -> None:
        """With those above it. Raises `ForeignPath`, OSError."""
        with _naming(path), _Walk(self, path, within, makes=True) as walk:
            if not stat.S_ISDIR(os.fstat(walk.found()).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def remove_folder(self, path: str, *, within: str = "") -> None:
        """With all in it, if it is there. Raises `ForeignPath`, OSError."""
        with _naming(path), suppress(FileNotFoundError), _Walk(self, path, within) as walk:
            folder, name = walk.entry(follows=False)
            shutil.rmtree(name, dir_fd=folder)

    def open_root(self, root: PurePosixPath) -> int:
        """A root, or the mount itself, may be reached over links: it is the operator's word."""
        return os.open(_on_node(self.mount, str(root)), _DIRECTORY)

    def root_of(self, path: PurePosixPath) -> PurePosixPath:
        """The innermost root that a path lies in. Raises `ForeignPath`."""
        for root in self._roots:
            if path.is_relative_to(root):
                return root
        named = ", ".join(map(str, sorted(self._roots)))
        raise ForeignPath(
            f"{path} is not below --files-root {named}: lay it there, or name and mount one more"
        )

    def is_own(self, folder: int, name: str) -> bool:
        """Whether the entry of a directory is LC's own."""
        if self._own is None or not self._is_own_name(name):
            return False
        try:
            return os.path.samestat(os.fstat(folder), os.stat(self._own))
        except FileNotFoundError:
            return False

    def _replace(self, folder: int, name: str, chunks: Iterable[bytes], path: str) -> None:
        partial = f".{name}.partial"
        if len(partial.encode()) > MAX_NAME:
            partial = f".{hashlib.sha256(name.encode()).hexdigest()}.partial"
        with _naming(path):
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=folder)
            descriptor = os.open(partial, _CREATE, mode=0, dir_fd=folder)
        try:
            with open(descriptor, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                _settle(file.fileno(), folder, _FILE_BITS)
                os.fsync(file.fileno())
            os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=folder)
            raise
        _sync(folder)


class _Walk:
    """Along one path. The directories on the way stay open until its end."""

    def __init__(
        self, files: HostFiles, path: str, within: str = "", *, makes: bool = False
    ) -> None:
        self._files = files
        self._path = path
        self._base = _normal(within) if within else None
        self._makes = makes
        self._links = 0
        self._opened: list[int] = []
        # From the root, or the base, on; and the parts that are left.
        self._folders: list[int] = []
        self._left: list[str] = []

    def __enter__(self) -> "_Walk":
        try:
            self._begin(_normal(self._path))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def found(self) -> int:
        """What the path leads to, opened as a path only: nothing has happened to it."""
        while self._left:
            last = self._step()
            if last is not None:
                return last
        return self._folders[-1]

    def entry(self, *, follows: bool = True) -> tuple[int, str]:
        """The directory that holds what the path leads to, and the name there, of whatever has it
        or not. `follows`: also over a link in the last place."""
        while len(self._left) > 1 or self._left == [".."]:
            self._step()
        if not self._left:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        folder, name = self._folders[-1], self._checked(self._left[0])
        if follows and (target := _target(folder, name)) is not None:
            self._left.clear()
            self._follow(target)
            return self.entry()
        return folder, name

    def _begin(self, path: PurePosixPath) -> None:
        base = self._base
        if base is None:
            root = self._files.root_of(path)
            self._leave(self._folders)
            self._folders = [self._keep(self._files.open_root(root))]
        elif not path.is_relative_to(base):
            raise ForeignPath(f"{path} is not in {base}")
        else:
            root = base
            if not self._folders:
                with _Walk(self._files, str(base), makes=self._makes) as walk:
                    self._folders = [self._keep(os.dup(walk.found()))]
            self._leave(self._folders[1:])
            del self._folders[1:]
        self._left = list(path.relative_to(root).parts)

    def _step(self) -> int | None:
        """Into the next part. A descriptor where that is the last one, and no directory or link."""
        name = self._left.pop(0)
        if name == "..":
            if len(self._folders) == 1:
                raise ForeignPath(f"{self._path} leads out of the directory that it may be in")
            self._leave([self._folders.pop()])
            return None
        found = self._open_part(self._folders[-1], self._checked(name))
        mode = os.fstat(found).st_mode
        if stat.S_ISLNK(mode):
            target = os.readlink("", dir_fd=found)
            self._leave([found])
            self._follow(target)
        elif stat.S_ISDIR(mode):
            self._folders.append(found)
        elif not self._left:
            return found
        else:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)
        return None

    def _open_part(self, folder: int, name: str) -> int:
        try:
            return self._keep(os.open(name, _STEP, dir_fd=folder))
        except FileNotFoundError:
            if not self._makes:
                raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=folder)
            made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            try:
                _settle(made, folder, _FOLDER_BITS)
            finally:
                os.close(made)
            _sync(folder)
        return self._keep(os.open(name, _STEP, dir_fd=folder))

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        parts = [each for each in target.split("/") if each not in ("", ".")]
        left = [*parts, *self._left]
        if not target.startswith("/"):
            self._left = left
            return
        # `..` of what is left would be taken for the target's: no job needs that.
        if ".." in left:
            raise ForeignPath(f"{self._path} leads over {target!r:.80}, which has '..'")
        try:
            self._begin(PurePosixPath("/", *left))
        except ForeignPath as error:
            raise ForeignPath(f"{self._path} leads to {target!r:.80}: {error}") from error

    def _checked(self, name: str) -> str:
        if self._files.is_own(self._folders[-1], name):
            raise ForeignPath(f"{self._path} is LC's own")
        return name

    def _keep(self, descriptor: int) -> int:
        self._opened.append(descriptor)
        if len(self._opened) > MAX_DEPTH:
            raise OSError(errno.ENAMETOOLONG, f"deeper than {MAX_DEPTH} directories", self._path)
        return descriptor

    def _leave(self, descriptors: Iterable[int]) -> None:
        for each in descriptors:
            self._opened.remove(each)
            os.close(each)

    def _close(self) -> None:
        while self._opened:
            os.close(self._opened.pop())


def _target(folder: int, name: str) -> str | None:
    """Of a link; None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


def _on_node(mount: Path, path: str) -> Path:
    """Where a path of the node is below the mount: links lead where they would on the node. Raises
    OSError for a loop of links."""
    if mount == Path("/"):
        return Path("/", path)
    waiting = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    found: list[str] = []
    links = 0
    while waiting:
        part = waiting.pop()
        if part == "..":
            del found[-1:]
            continue
        try:
            target = os.readlink(mount.joinpath(*found, part))
        except OSError:
            found.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            found.clear()
        waiting += [each for each in reversed(target.split("/")) if each not in ("", ".")]
    return mount.joinpath(*found)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """An OSError says which path of the node it is about."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), path) from error


def _normal(path: str) -> PurePosixPath:
    """Raises `ForeignPath` for what is no absolute path, or has a `..`."""
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts or "\0" in path:
        raise ForeignPath(f"{path!r:.120} is no absolute path without '..'")
    return PurePosixPath("/", *(each for each in parts if each not in ("", ".")))


def _check_regular(descriptor: int, path: str) -> None:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise NotAFile(f"{path} is a directory")
    if not stat.S_ISREG(mode):
        raise NotAFile(f"{path} is not a regular file")


def _settle(descriptor: int, folder: int, bits: int) -> None:
    """Mode and owner of the directory that holds it, as far as this process may give them."""
    holder = os.fstat(folder)
    os.fchmod(descriptor, stat.S_IMODE(holder.st_mode) & bits)
    is_ours = os.fstat(descriptor)
    if (is_ours.st_uid, is_ours.st_gid) != (holder.st_uid, holder.st_gid):
        with suppress(PermissionError):
            os.fchown(descriptor, holder.st_uid, holder.st_gid)


def _sync(folder: int) -> None:
    """Of a directory that was opened as a path only."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
