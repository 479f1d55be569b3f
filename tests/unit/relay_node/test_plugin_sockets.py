"""What of kubelet's plugins is removed before kubelet starts: sockets that nothing listens at."""

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_node.installer.plugin_sockets import REGISTRY, remove_dead_sockets


def bound(path: Path) -> socket.socket:
    it = socket.socket(socket.AF_UNIX)
    it.bind(str(path))
    it.listen()
    return it


@pytest.fixture
def root() -> Iterator[Path]:
    """The kernel takes no path of a socket that is longer than 107 bytes: a `tmp_path` may be."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_only_sockets_without_a_listener_go(root: Path) -> None:
    folder = root / REGISTRY.relative_to("/")
    folder.mkdir(parents=True)
    (folder / "file.sock").write_bytes(b"")
    (folder / "link.sock").symlink_to("nowhere")
    bound(folder / "dead.sock").close()
    with bound(folder / "living.sock"):
        assert remove_dead_sockets(root) == [REGISTRY / "dead.sock"]
        assert remove_dead_sockets(root) == []
        left = {it.name for it in folder.iterdir()}
    assert left == {"file.sock", "link.sock", "living.sock"}


def test_without_plugins_nothing_is_done(tmp_path: Path) -> None:
    assert remove_dead_sockets(tmp_path) == []
