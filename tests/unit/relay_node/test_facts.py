"""What `node doctor` and `node status` read of a node's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.runtime.cli.values import BadInput, address
from edge_sidecars.runtime.process import VERSION
from relay_node.doctor.machine.machine import credential_lack
from relay_node.doctor.machine.unit_files import Disk, UnitFiles
from relay_node.doctor.node_reader import listen_of, status_url_of
from relay_node.file_state import FileChange
from relay_node.installer import cni, snapshot
from relay_node.installer.attempt import RECORD
from relay_node.installer.installation import Installation
from relay_node.installer.systemd import units
from relay_node.kubelet_api import node_of

DATA = Path("/var/lib/relay-sidecar")
OLD, NEW = Path("/etc/old"), Path("/etc/new")
SUBNET = Path("/run/flannel/subnet.env")


def put(root: Path, path: Path, content: str) -> None:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(content)


# ── the installation ──


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    put(tmp_path, OLD, "before")
    it = Installation(tmp_path, DATA)
    it.install([FileChange(OLD, b"after"), FileChange(NEW, b"new")])
    return it


def test_an_installation_names_the_version_that_made_it(
    installed: Installation, tmp_path: Path
) -> None:
    assert Installation(tmp_path / "empty", DATA).version() == ""
    assert installed.version() == VERSION
    record = installed.on_node(DATA) / RECORD
    record.write_text(json.dumps({"files": json.loads(record.read_text())["files"]}))
    assert installed.version() == "an earlier version"


def test_files_that_are_not_as_they_were_installed_are_named(
    installed: Installation, tmp_path: Path
) -> None:
    assert installed.deviating() == []
    put(tmp_path, OLD, "before")
    installed.on_node(NEW).unlink()
    assert [change.path for change in installed.deviating()] == [OLD, NEW]
    assert installed.backup(installed.deviating()[0]).read_text() == "before"


# ── the snapshot ──


def test_a_file_without_its_copy_is_outdated_until_it_is_saved(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert snapshot.outdated(tmp_path, data) == []
    for content in ("one", "two"):
        put(tmp_path, SUBNET, content)
        assert snapshot.outdated(tmp_path, data) == [SUBNET]
        assert snapshot.save(tmp_path, data) == [SUBNET]
        assert snapshot.outdated(tmp_path, data) == []
    put(tmp_path, SUBNET, "")
    assert snapshot.outdated(tmp_path, data) == []
    (tmp_path / SUBNET.relative_to("/")).unlink()
    assert snapshot.outdated(tmp_path, data) == []
    assert snapshot.restore(tmp_path, data) == [SUBNET]
    assert (tmp_path / SUBNET.relative_to("/")).read_text() == "two"


# ── the unit ──


def test_where_the_relay_listens_is_as_installed(tmp_path: Path) -> None:
    assert listen_of(tmp_path) == address("127.0.0.1:10550")
    assert status_url_of(tmp_path) == "http://127.0.0.1:10551"
    flags = ["--listen=127.0.0.1:10560", "--status-listen=:10561"]
    unit = units.relay(["/bin/relay"], prepare=["node"], flags=flags, credential=None)
    put(tmp_path, units.FOLDER / units.RELAY, unit)
    assert listen_of(tmp_path) == address("127.0.0.1:10560")
    assert status_url_of(tmp_path) == "http://127.0.0.1:10561"


@pytest.mark.parametrize("value", ["/a b", "100%", "$HOME", "it's"])
def test_a_flag_of_the_unit_is_read_as_it_was_written(value: str) -> None:
    unit = units.relay(["/bin/r"], prepare=[], flags=[f"--data-dir={value}"], credential=None)
    assert units.flag_of(unit, "--data-dir") == value
    apart = unit.replace("--data-dir=", "--data-dir ").replace("'--data-dir ", "--data-dir '")
    assert units.flag_of(apart, "--data-dir") == value
    assert units.flag_of(unit, "--data") is None


def test_a_credential_that_is_gone_is_a_key_that_is_missing(tmp_path: Path) -> None:
    path = Path("/etc/credstore.encrypted/relay-sidecar-key")
    unit = units.relay(["/bin/r"], prepare=[], flags=[], credential=("relay-sidecar-key", path))
    put(tmp_path, units.FOLDER / units.RELAY, unit)
    disk = Disk(tmp_path)
    read = UnitFiles(disk).unit(units.RELAY)
    assert read is not None
    assert f"{path}: No such file" in credential_lack(read, disk)


# ── the network ──


def network(ipam: dict[str, Any]) -> str:
    plugins = [{"type": "bridge", "ipam": ipam}, {"type": "portmap"}]
    return json.dumps({"name": "pods", "plugins": plugins})


@pytest.mark.parametrize(
    ("files", "state_dir"),
    [
        ({}, None),
        ({"10-a.conflist": network({"type": "host-local"})}, None),
        ({"10-a.conflist": network({"type": "sticky-ipam"})}, DATA / "cni"),
        (
            {"10-a.conflist": network({"type": "sticky-ipam", "sticky": {"stateDir": "/s"}})},
            Path("/s"),
        ),
        (
            {
                "10-a.conflist": network({"type": "host-local"}),
                "20-b.conflist": network({"type": "sticky-ipam"}),
            },
            None,
        ),
        ({"05-a.conf": "{", "10-b.conflist": network({"type": "sticky-ipam"})}, DATA / "cni"),
        (
            {"10-a.conf": json.dumps({"type": "bridge", "ipam": {"type": "sticky-ipam"}})},
            DATA / "cni",
        ),
    ],
)
def test_reservations_are_those_of_the_first_network(
    tmp_path: Path, files: dict[str, str], state_dir: Path | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    assert cni.reservations(tmp_path, state_dir=DATA / "cni") == state_dir


# ── whose kubeconfig ──


def test_only_a_nodes_user_names_a_node() -> None:
    assert node_of("system:node:edge-1") == "edge-1"
    for user in ("admin", "system:serviceaccount:a:b", ""):
        with pytest.raises(BadInput, match="name kubelet's"):
            node_of(user)
