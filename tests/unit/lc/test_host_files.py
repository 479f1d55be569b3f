"""Paths of the node lead where they would there, and never out of the mount."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lc.files.node_files import HostFiles


def test_a_path_is_one_below_the_mount(tmp_path: Path) -> None:
    assert HostFiles(tmp_path).path("/srv/d.txt") == tmp_path / "srv/d.txt"
    assert HostFiles(tmp_path).path("srv//./d.txt") == tmp_path / "srv/d.txt"
    assert HostFiles(tmp_path).path("file:///srv/d.txt") == tmp_path / "srv/d.txt"
    assert HostFiles(Path("/")).path("/srv/d.txt") == Path("/srv/d.txt")


@pytest.mark.parametrize(
    ("link", "target", "asked", "found"),
    [
        ("srv/link", "/data", "/srv/link/d.txt", "data/d.txt"),
        ("srv/link", "../data", "/srv/link/d.txt", "data/d.txt"),
        ("srv/link", "../../../../etc", "/srv/link/passwd", "etc/passwd"),
        ("srv/link", "/", "/srv/link/srv/link/etc", "etc"),
        ("srv/link", "d", "/srv/link", "srv/d"),
    ],
)
def test_links_are_those_of_the_node(
    tmp_path: Path, link: str, target: str, asked: str, found: str
) -> None:
    place = tmp_path / link
    place.parent.mkdir(parents=True)
    place.symlink_to(target)
    assert HostFiles(tmp_path).path(asked) == tmp_path / found


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        HostFiles(tmp_path).path("/a/d.txt")


@given(st.lists(st.sampled_from(("..", ".", "", "a", "b")), max_size=12))
def test_nothing_leads_out_of_the_mount(parts: list[str]) -> None:
    root = Path("/nowhere/mounted")
    assert HostFiles(root).path("/".join(parts)).is_relative_to(root)
