"""A disk of its own for a node's data directory, small enough to be filled; a reboot finds it."""

from collections.abc import Iterator
from contextlib import contextmanager

from tools.harness.nodes.node import Node

FOLDER = "/var/lib/relay-sidecar"
# The disk, and what it is full of.
_IMAGE, _FILLER = "/var/tmp/relay-sidecar.img", f"{FOLDER}/filler"
_MEBIBYTES = 64
# No unit of systemd.mount(5): there is a mount at the folder already.
_NAME = "small-disk.service"
_UNIT = f"""[Unit]
Before=relay-sidecar.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/mount -o loop {_IMAGE} {FOLDER}
ExecStop=/usr/bin/umount {FOLDER}
[Install]
WantedBy=multi-user.target
RequiredBy=relay-sidecar.service
"""
# Never more than the disk has: the machine's own is not meant.
_FILL = f"""
dd if=/dev/zero of={_FILLER} bs=1M count={_MEBIBYTES} conv=fsync 2>/dev/null
dd if=/dev/zero of={_FILLER} bs=1k count=1024 oflag=append conv=notrunc,fsync 2>/dev/null
df --output=avail {FOLDER} | tail -n 1
"""


class SmallDisk:
    def __init__(self, node: Node) -> None:
        self._node = node

    def fill(self) -> None:
        """Nothing more can be written there."""
        left = self._node.run("sh", "-c", _FILL).expect()
        assert left.strip() == "0", left

    def make_room(self) -> None:
        self._node.run("rm", "-f", _FILLER).expect()


@contextmanager
def small_disk(node: Node) -> Iterator[SmallDisk]:
    """The relay is restarted with what it had; at the end its data are where they were before."""
    node.write({f"/etc/systemd/system/{_NAME}": (_UNIT.encode(), 0o644)})
    script = f"""set -e
systemctl stop relay-sidecar
truncate -s {_MEBIBYTES}M {_IMAGE}
mkfs.ext4 -q -m 0 {_IMAGE}
mkdir -p /run/small-disk
mount -o loop {_IMAGE} /run/small-disk
cp -a {FOLDER}/. /run/small-disk
umount /run/small-disk
systemctl daemon-reload
systemctl enable --quiet --now {_NAME}
df --output=source {FOLDER} | grep -q /dev/loop
systemctl start relay-sidecar
"""
    node.run("sh", "-c", script).expect()
    try:
        yield SmallDisk(node)
    finally:
        script = f"""set -e
systemctl disable --quiet {_NAME}
systemctl stop relay-sidecar
systemctl stop {_NAME}
mkdir -p /run/small-disk
mount -o loop {_IMAGE} /run/small-disk
rm -f /run/small-disk/filler
find {FOLDER} -mindepth 1 -delete
cp -a /run/small-disk/. {FOLDER}
umount /run/small-disk
rm -f /etc/systemd/system/{_NAME} {_IMAGE}
systemctl daemon-reload
systemctl start relay-sidecar
"""
        node.run("sh", "-c", script).expect()
