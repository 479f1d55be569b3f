"""Files of a node that an installation changes: all or none, and taken back as they were."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.file_state import FileChange
from relay_node.installer.attempt import ATTEMPT, BACKUPS, RECORD
from relay_node.installer.installation import LEFTOVER, Installation

DATA = Path("/var/lib/relay-sidecar")
CONFIG, UNIT = Path("/etc/kubernetes/kubelet.conf"), Path("/etc/systemd/system/r.service")
CHANGES = [FileChange(CONFIG, b"new", 0o600), FileChange(UNIT, b"unit")]


def node(root: Path) -> Installation:
    """With a kubelet, and nothing of ours."""
    it = Installation(root, DATA)
    it.on_node(CONFIG).parent.mkdir(parents=True)
    it.on_node(CONFIG).write_bytes(b"old")
    it.on_node(CONFIG).chmod(0o640)
    return it


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    """All but what the installation keeps for itself."""
    found = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mode & 0o777)
        for path in found
        if "relay-sidecar" not in path.parts
    }


def test_what_is_installed_is_taken_back(tmp_path: Path) -> None:
    it = node(tmp_path)
    before = files(tmp_path)
    assert it.install(CHANGES) == CHANGES
    after = files(tmp_path)
    assert after["etc/kubernetes/kubelet.conf"] == (b"new", 0o600)
    assert after["etc/systemd/system/r.service"] == (b"unit", 0o644)
    assert set(it.uninstall()) == {CONFIG, UNIT}
    assert files(tmp_path) == before
    assert it.recorded() == {}


def test_a_second_installation_changes_nothing_and_keeps_the_first_original(tmp_path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    assert it.install(CHANGES) == []
    it.install([FileChange(CONFIG, b"newer", 0o600)])
    assert it.original(CONFIG) == b"old"
    # The unit is no part of it any more.
    assert not it.on_node(UNIT).exists()
    it.uninstall()
    assert files(tmp_path) == {"etc/kubernetes/kubelet.conf": (b"old", 0o640)}


@pytest.mark.parametrize("path", [CONFIG, UNIT])
def test_what_was_changed_by_hand_is_named_and_left(tmp_path: Path, path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    it.on_node(path).write_bytes(b"by hand")
    before = files(tmp_path)
    for work in (it.uninstall, lambda: it.install([FileChange(path, b"other")])):
        with pytest.raises(BadInput, match=f"{path} was changed by hand") as raised:
            work()
        assert "--force" in str(raised.value)
    assert files(tmp_path) == before
    it.uninstall(is_forced=True)
    assert files(tmp_path) == {"etc/kubernetes/kubelet.conf": (b"old", 0o640)}


def test_an_installation_that_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    it = node(tmp_path)
    before = files(tmp_path)
    # A file where a folder should be.
    with pytest.raises(BadInput, match="nothing is changed"):
        it.install([*CHANGES, FileChange(CONFIG / "x", b"")])
    assert files(tmp_path) == before
    it.install(CHANGES)
    it.uninstall()
    assert files(tmp_path) == before


# In mounts of its own. Arguments: the root, a command of sh, what was installed before.
_IN_MOUNTS = """
import subprocess, sys
from pathlib import Path
from edge_sidecars.runtime.cli.values import BadInput
from relay_node.file_state import FileChange
from tests.unit.relay_node.test_installation import CHANGES, DATA, Installation, files

root, command, before = Path(sys.argv[1]), *sys.argv[2:]
it = Installation(root, DATA)
if before:
    it.install(CHANGES)
again = [FileChange(change.path, change.content * 2000, change.mode) for change in CHANGES]
more = [FileChange(Path(f"/etc/{name}/new"), b"new" * 2000) for name in "az"]
subprocess.run(["sh", "-ec", command], cwd=root, check=True)
found, recorded = files(root), it.recorded()
try:
    it.install([more[0], *again, more[1]])
except BadInput as error:
    assert str(error).endswith("nothing is changed"), error
else:
    raise AssertionError("it is installed")
assert files(root) == found, files(root)
assert it.recorded() == recorded
assert it.interrupted() is None
"""


@pytest.mark.parametrize("before", ["", "installed"])
@pytest.mark.parametrize(
    "command",
    [
        "mount --bind etc etc; mount -o remount,bind,ro etc",
        "mount --bind etc/kubernetes etc/kubernetes; mount -o remount,bind,ro etc/kubernetes",
        # As by `docker run --volume FILE:FILE`: nothing can take its place.
        "mount --bind etc/kubernetes/kubelet.conf etc/kubernetes/kubelet.conf",
        "mkdir etc/z; mount -t tmpfs -o size=4k none etc/z",
    ],
    ids=["etc is read-only", "a folder is read-only", "a file is mounted", "a disk is full"],
)
def test_what_cannot_be_changed_needs_not_be_put_back(
    tmp_path: Path, command: str, before: str
) -> None:
    node(tmp_path)
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    child = [sys.executable, "-c", _IN_MOUNTS, str(tmp_path), command, before]
    done = subprocess.run([*own, *child], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class Killed(BaseException):
    """What kill -9 is to the code."""


def test_an_installation_that_is_killed_anywhere_is_repeated_or_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename
    for number in itertools.count():
        for again in ("install", "uninstall"):
            root = tmp_path / f"{number}-{again}"
            it, left = node(root), [number]
            before = files(root)

            def killed(path: Path, target: Path, left: list[int] = left) -> Path:
                if not left[0]:
                    raise Killed
                left[0] -= 1
                return rename(path, target)

            monkeypatch.setattr(Path, "rename", killed)
            try:
                it.install(CHANGES)
            except Killed:
                is_killed = True
            else:
                is_killed = False
            monkeypatch.setattr(Path, "rename", rename)
            if again == "install":
                it.install(CHANGES)
                assert it.pending(CHANGES) == []
            it.uninstall()
            assert {k: v for k, v in files(root).items() if not k.endswith(".new")} == before
        if not is_killed:
            assert number >= 4
            return


def test_a_record_that_is_damaged_says_where_the_originals_are(tmp_path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    (it.on_node(DATA) / RECORD).write_text("{")
    with pytest.raises(BadInput, match=r"put the files of .*backup back"):
        it.uninstall()


@pytest.mark.parametrize(
    "content",
    [b"[" * 20_000, b"3", b'{"files": 3}', b'{"files": [3]}', b"\xff", b'{"options": []}'],
)
def test_each_file_of_ours_that_is_damaged_is_named(tmp_path: Path, content: bytes) -> None:
    it = node(tmp_path)
    for path, read in (
        (RECORD, it.recorded),
        (ATTEMPT, it.interrupted),
        (LEFTOVER, it.leftover),
    ):
        file = it.on_node(DATA) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if path == RECORD and content.startswith(b'{"options"'):
            assert (it.recorded(), it.options()) == ({}, {})
        else:
            with pytest.raises(BadInput, match=f"{file} cannot be read"):
                read()
        file.unlink()


def test_a_unit_that_is_masked_is_named_and_left(tmp_path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    it.on_node(UNIT).unlink()
    it.on_node(UNIT).symlink_to("/dev/null")
    with pytest.raises(BadInput, match=f"{UNIT}: not a regular file; move it away"):
        it.install(CHANGES)
    assert [change.path for change in it.deviating()] == [UNIT]
    it.uninstall(is_forced=True)
    assert not os.path.lexists(it.on_node(UNIT))


def test_an_original_that_is_gone_is_named(tmp_path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    [backup] = (it.on_node(DATA) / BACKUPS).iterdir()
    backup.unlink()
    with pytest.raises(BadInput, match=f"{backup}, what {CONFIG} was, cannot be read: No such"):
        it.original(CONFIG)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another owner's file")
def test_an_original_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    it = node(tmp_path)
    it.install(CHANGES)
    [backup] = (it.on_node(DATA) / BACKUPS).iterdir()
    assert backup.stat().st_mode & 0o777 == 0o600


@given(
    histories=st.lists(
        st.dictionaries(
            st.sampled_from(["/a", "/b", "/c/d"]), st.one_of(st.none(), st.binary(max_size=2))
        ),
        max_size=4,
    ),
    initial=st.dictionaries(st.sampled_from(["/a", "/b", "/c/d"]), st.binary(max_size=2)),
)
def test_after_any_installations_uninstalling_gives_back_what_was(
    tmp_path_factory: pytest.TempPathFactory,
    histories: list[dict[str, bytes | None]],
    initial: dict[str, bytes],
) -> None:
    root = tmp_path_factory.mktemp("node")
    it = Installation(root, DATA)
    for name, content in initial.items():
        it.on_node(Path(name)).parent.mkdir(parents=True, exist_ok=True)
        it.on_node(Path(name)).write_bytes(content)
    before = {name: content for name, (content, _) in files(root).items()}
    for changes in histories:
        it.install([FileChange(Path(name), content) for name, content in changes.items()])
        for name, wanted in changes.items():
            assert it.on_node(Path(name)).exists() is (wanted is not None)
    it.uninstall()
    assert {name: content for name, (content, _) in files(root).items()} == before
