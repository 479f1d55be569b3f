"""Nothing outside of the files roots is read or written, whatever a path, links or renames say."""

import os
import random
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lc.files.host_files import ForeignPath, HostFiles, NotAFile
from tests.examples import examples

SECRET = b"of the node alone"
OWN = b"LC's store"


def rooted(mount: Path, *roots: str) -> HostFiles:
    own = mount / "srv"
    places = [PurePosixPath(it) for it in roots or ("/srv",)]
    return HostFiles(mount, places, own=own, is_own_name=lambda name: name.startswith("lc."))


def read(files: HostFiles, path: str, *, within: str = "") -> bytes:
    with os.fdopen(files.open(path, within=within), "rb") as file:
        return file.read()


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    """/srv is a root, /etc is none."""
    (tmp_path / "srv/d").mkdir(parents=True)
    (tmp_path / "srv/d/d.txt").write_bytes(b"samples")
    (tmp_path / "srv/lc.sqlite3").write_bytes(OWN)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/shadow").write_bytes(SECRET)
    return tmp_path


@pytest.mark.parametrize(
    ("link", "target", "asked"),
    [
        ("srv/link", "/srv/d", "/srv/link/d.txt"),
        ("srv/link", "d", "/srv/link/d.txt"),
        ("srv/link", "./d/../d/", "/srv//link/./d.txt"),
        ("srv/link", "/srv/d/d.txt", "/srv/link"),
        ("srv/d/up", "..", "/srv/d/up/d/d.txt"),
        ("srv/d/up", "../d/d.txt", "/srv/d/up"),
    ],
)
def test_links_that_stay_inside_lead_where_they_do_on_the_node(
    mount: Path, link: str, target: str, asked: str
) -> None:
    (mount / link).symlink_to(target)
    assert read(rooted(mount), asked) == b"samples"


@pytest.mark.parametrize(
    ("link", "target", "asked"),
    [
        ("srv/link", "/etc/shadow", "/srv/link"),
        ("srv/link", "../etc/shadow", "/srv/link"),
        ("srv/link", "/etc", "/srv/link/shadow"),
        ("srv/link", "..", "/srv/link/etc/shadow"),
        ("srv/link", "/proc/self/root/etc", "/srv/link/shadow"),
        ("srv/link", "/srv/d/../../etc", "/srv/link/shadow"),
        ("srv/link", "d", "/etc/shadow"),
        ("srv/link", "d", "/srv/../etc/shadow"),
        ("srv/link", "d", "etc/shadow"),
        ("srv/link", "d", "/"),
        ("srv/link", "d", "/srvx/shadow"),
        ("srv/link", "lc.sqlite3", "/srv/link"),
        ("srv/link", "d", "/srv/lc.sqlite3"),
        ("srv/d/up", "..", "/srv/d/up/lc.sqlite3"),
    ],
)
def test_what_leads_out_or_is_lcs_own_is_foreign(
    mount: Path, link: str, target: str, asked: str
) -> None:
    (mount / link).symlink_to(target)
    files = rooted(mount)
    with pytest.raises(ForeignPath):
        read(files, asked)
    with pytest.raises((ForeignPath, IsADirectoryError)):
        files.write(asked, [b"evil"])
    with pytest.raises(ForeignPath):
        files.make_folder(f"{asked}/below")
    with suppress(ForeignPath, OSError):
        files.remove_folder(asked)
    assert (mount / "etc/shadow").read_bytes() == SECRET
    assert (mount / "srv/lc.sqlite3").read_bytes() == OWN


def test_what_lies_in_a_jobs_directory_does_not_lead_out_of_it(mount: Path) -> None:
    files = rooted(mount)
    files.make_folder("/srv/out")
    (mount / "srv/out/a").symlink_to("../d/d.txt")
    (mount / "srv/out/b").symlink_to("/srv/d/d.txt")
    (mount / "srv/out/folder").symlink_to("/srv/d")
    (mount / "srv/out/inside").symlink_to("/srv/out/own")
    files.write("/srv/out/own", [b"own"], within="/srv/out")
    assert read(files, "/srv/out/inside", within="/srv/out") == b"own"
    for asked in ("/srv/out/a", "/srv/out/b", "/srv/out/folder/d.txt", "/srv/d/d.txt"):
        assert read(files, asked) == b"samples"
        with pytest.raises(ForeignPath):
            read(files, asked, within="/srv/out")
        with pytest.raises(ForeignPath):
            files.write(asked, [b"evil"], within="/srv/out")
    assert (mount / "srv/d/d.txt").read_bytes() == b"samples"


def test_a_root_may_be_reached_over_links_and_a_loop_is_an_error(mount: Path) -> None:
    (mount / "data").symlink_to("/srv/d")
    assert read(rooted(mount, "/data"), "/data/d.txt") == b"samples"
    (mount / "srv/a").symlink_to("b")
    (mount / "srv/b").symlink_to("/srv/a")
    with pytest.raises(OSError, match="symbolic links"):
        read(rooted(mount), "/srv/a/d.txt")


def test_a_path_holds_few_descriptors_however_deep_it_is_and_whatever_its_links(
    mount: Path,
) -> None:
    files, opened = rooted(mount), len(os.listdir("/proc/self/fd"))
    deep = "/srv/" + "a/" * 1000
    for within in ("", "/srv"):
        with pytest.raises(OSError, match="deeper than 128 directories"):
            files.make_folder(deep, within=within)
        with pytest.raises(OSError, match="deeper than 128 directories"):
            files.write(f"{deep}x", [b""], within=within)
        assert len(os.listdir("/proc/self/fd")) == opened
    files.make_folder("/srv/" + "a/" * 100)
    # Each link leads a hundred directories down and up again.
    around = "a/" * 100 + "../" * 100
    for number in range(30):
        (mount / f"srv/link{number}").symlink_to(f"{around}link{number + 1}")
    (mount / "srv/link30").symlink_to("d/d.txt")
    assert read(files, "/srv/link0") == b"samples"
    assert len(os.listdir("/proc/self/fd")) == opened


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "directory"])
def test_only_a_regular_file_is_opened_and_nothing_waits_for_it(mount: Path, kind: str) -> None:
    place = mount / "srv/it"
    match kind:
        case "fifo":
            os.mkfifo(place)
        case "socket":
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(place))
        case "device":
            if os.getuid():
                pytest.skip("only root makes devices")
            os.mknod(place, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        case _:
            place.mkdir()
    with pytest.raises(NotAFile):
        read(rooted(mount), "/srv/it")


def test_a_file_is_replaced_as_a_whole_or_not_at_all(mount: Path) -> None:
    files = rooted(mount)

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError(5, "gone", "source")

    with pytest.raises(OSError, match="source"):
        files.write("/srv/d/d.txt", broken())
    assert read(files, "/srv/d/d.txt") == b"samples"
    assert [it.name for it in (mount / "srv/d").iterdir()] == ["d.txt"]
    (mount / "srv/d/latest").symlink_to("d.txt")
    files.write("/srv/d/latest", [b"n", b"ew"])
    assert (mount / "srv/d/latest").is_symlink()
    assert read(files, "/srv/d/d.txt") == b"new"
    name = "é" * 127
    files.write(f"/srv/d/{name}", [b"long"])
    assert read(files, f"/srv/d/{name}") == b"long"


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(("mode", "file_mode"), [(0o755, 0o644), (0o750, 0o640), (0o2770, 0o660)])
def test_what_is_made_has_mode_and_owner_of_the_directory_that_holds_it(
    mount: Path, mode: int, file_mode: int
) -> None:
    folder = mount / "srv/d"
    os.chown(folder, 1234, 2345)
    folder.chmod(mode)
    rooted(mount).write("/srv/d/a/b/model.pb", [b"x"])
    for made, wanted in (("a", mode), ("a/b", mode), ("a/b/model.pb", file_mode)):
        found = (folder / made).stat()
        assert (found.st_uid, found.st_gid) == (1234, 2345)
        assert stat.S_IMODE(found.st_mode) == wanted, made


def test_a_folder_is_removed_with_all_in_it_and_what_its_links_lead_to_stays(mount: Path) -> None:
    files = rooted(mount)
    files.write("/srv/hot/a/b", [b"x"])
    (mount / "srv/hot/link").symlink_to("/etc")
    files.remove_folder("/srv/hot")
    files.remove_folder("/srv/hot/never/was")
    assert not (mount / "srv/hot").exists()
    assert (mount / "etc/shadow").read_bytes() == SECRET


NAMES = ["a", "b", "srv", "etc", "shadow", "lc.sqlite3", "..", ".", ""]
PATHS = st.tuples(
    st.sampled_from(["/srv/", "/srv/a/", "/srv/out/", "/", "", "../", "/proc/self/root/"]),
    st.lists(st.sampled_from(NAMES), max_size=4),
).map(lambda it: it[0] + "/".join(it[1]))
INSIDE = st.sampled_from(["a", "b", "out", "a/a", "a/b", "out/a", "out/b", "out/a/b"])
LINKS = st.lists(st.tuples(INSIDE, PATHS), max_size=4)
DEEDS = st.sampled_from(["open", "write", "make_folder", "remove_folder"])
WITHIN = st.sampled_from(["", "/srv/out"])


@contextmanager
def node() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        mount = Path(folder)
        for place in ("etc", "srv/a/b", "srv/out"):
            (mount / place).mkdir(parents=True)
        for place in ("etc/shadow", "etc/a", "shadow", "a", "b"):
            (mount / place).write_bytes(SECRET)
        (mount / "srv/lc.sqlite3").write_bytes(OWN)
        yield mount


def outside(mount: Path) -> dict[str, object]:
    """All that is none of the jobs'."""
    found: dict[str, object] = {
        str(it): it.read_bytes() if it.is_file() else it.is_dir()
        for it in mount.rglob("*")
        if mount / "srv" not in it.parents
    }
    found["own"] = (mount / "srv/lc.sqlite3").read_bytes()
    return found


@pytest.mark.slow
@settings(max_examples=examples(1_000), deadline=None)
@given(LINKS, st.lists(st.tuples(DEEDS, PATHS, WITHIN), min_size=1, max_size=3))
def test_whatever_is_drawn_nothing_outside_is_read_or_written(
    links: list[tuple[str, str]], deeds: list[tuple[str, str, str]]
) -> None:
    with node() as mount:
        files = rooted(mount)
        for place, target in links:
            with suppress(OSError):
                (mount / "srv" / place).symlink_to(target)
        before = outside(mount)
        for deed, path, within in deeds:
            with suppress(ForeignPath, NotAFile, OSError):
                if deed == "open":
                    assert read(files, path, within=within) not in (SECRET, OWN)
                elif deed == "write":
                    files.write(path, [b"evil"], within=within)
                else:
                    getattr(files, deed)(path, within=within)
            assert outside(mount) == before


@pytest.mark.parametrize("within", ["", "/srv/out"])
def test_no_rename_at_the_right_moment_leads_out(mount: Path, within: str) -> None:
    """A directory and a link out of the root change places all the time."""
    files = rooted(mount)
    (mount / "srv/out/x").mkdir(parents=True)
    (mount / "srv/out/x/shadow").write_bytes(b"mine")
    (mount / "srv/out/y").symlink_to("/etc")
    (mount / "srv/out/z").symlink_to("../../etc")
    before = outside(mount)
    is_over = threading.Event()

    def change() -> None:
        chance = random.Random(1)
        while not is_over.is_set():
            one, other = chance.sample(["x", "y", "z"], 2)
            place = mount / "srv/out"
            with suppress(OSError):
                (place / one).rename(place / "t")
                (place / other).rename(place / one)
                (place / "t").rename(place / other)

    changing = threading.Thread(target=change)
    changing.start()
    seen = set()
    try:
        for number in range(examples(5_000)):
            # A write makes what is away just then, so that the directory may have to stay at t.
            name = "xyzt"[number % 4]
            with suppress(ForeignPath, NotAFile, OSError):
                seen.add(read(files, f"/srv/out/{name}/shadow", within=within))
            with suppress(ForeignPath, OSError):
                files.write(f"/srv/out/{name}/evil", [b"evil"], within=within)
    finally:
        is_over.set()
        changing.join()
    assert seen == {b"mine"}
    assert outside(mount) == before
