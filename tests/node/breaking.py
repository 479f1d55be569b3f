"""Breaks things on a node that runs, and puts them back: `NodeFiles` in a container."""

from typing import Final

from tools.harness.nodes.node import Node

# On a disk that a reboot keeps.
KEPT: Final = "/var/tmp/before"
_KEEP: Final = """
set -eu
mkdir -p "$2"
if [ -e "$1" ] || [ -L "$1" ]; then cp -a "$1" "$2/file"; fi
"""
_PUT_BACK: Final = """
set -eu
rm -rf "$1"
if [ -e "$2/file" ] || [ -L "$2/file" ]; then cp -a "$2/file" "$1"; fi
rm -rf "$2"
"""


class BreakingNode:
    """Remembers what each file was before its first change."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._kept: dict[str, str] = {}

    def read(self, path: str) -> str:
        return self.node.run("cat", path).expect()

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> None:
        self._keep(path)
        raw = content.encode() if isinstance(content, str) else content
        self.node.run("mkdir", "-p", path.rpartition("/")[0]).expect()
        self.node.run("rm", "-f", path).expect()
        self.node.write({path: (raw, mode)})

    def remove(self, path: str) -> None:
        self._keep(path)
        self.node.run("rm", path).expect()

    def link(self, path: str, target: str) -> None:
        self._keep(path)
        self.node.run("ln", "-sfn", target, path).expect()

    def chmod(self, path: str, mode: int) -> None:
        self._keep(path)
        self.node.run("chmod", f"{mode:o}", path).expect()

    def restart(self, unit: str) -> None:
        self.node.run("systemctl", "daemon-reload").expect()
        self.node.run("systemctl", "restart", unit).expect()

    def put_back(self) -> None:
        """All as it was; what runs goes on with what it has."""
        for path, folder in self._kept.items():
            self.node.run("sh", "-c", _PUT_BACK, "sh", path, folder).expect()
        self._kept.clear()

    def _keep(self, path: str) -> None:
        if path not in self._kept:
            self._kept[path] = f"{KEPT}/{len(self._kept)}"
            self.node.run("sh", "-c", _KEEP, "sh", path, self._kept[path]).expect()
