"""The file that names the pool's Lease to the elector of the node."""

import stat
from pathlib import Path

import pytest

from edge_sidecars.runtime.formats.rfc1123 import is_subdomain
from pool_sidecar.core.pool_member import is_pool_name
from pool_sidecar.member.lease_name import name_lease


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lease"


def test_it_has_the_name_of_the_lease_and_any_user_reads_it(path: Path) -> None:
    name_lease(path, "hall")
    assert path.read_text() == "pool-hall\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [it.name for it in path.parent.iterdir()] == ["lease"]


def test_another_pool_takes_the_place_of_the_first_as_a_whole(path: Path) -> None:
    name_lease(path, "hall")
    with path.open() as held:
        name_lease(path, "yard")
        # Whoever has it open sees the old one, never half of both.
        assert held.read() == "pool-hall\n"
    assert path.read_text() == "pool-yard\n"


def test_a_node_that_leaves_its_pool_leaves_no_file(path: Path) -> None:
    name_lease(path, "hall")
    name_lease(path, "")
    assert not path.exists()
    name_lease(path, "")


def test_what_says_the_right_thing_is_not_written_again(path: Path) -> None:
    name_lease(path, "hall")
    before = path.stat().st_ino
    name_lease(path, "hall")
    assert path.stat().st_ino == before


@pytest.mark.parametrize("pool", ["a", "factory-7", "x" * 63])
def test_each_pools_name_makes_the_name_of_a_lease(path: Path, pool: str) -> None:
    assert is_pool_name(pool)
    name_lease(path, pool)
    assert is_subdomain(path.read_text().strip())


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        name_lease(tmp_path / "absent/lease", "hall")
