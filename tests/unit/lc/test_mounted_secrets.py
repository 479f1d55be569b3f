"""Secrets are read where volumes have them, and nowhere else."""

from pathlib import Path

import pytest

from lc.files.node_files import MountedSecrets


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """As kubelet mounts a Secret: keys are links to what is behind ..data."""
    folder = tmp_path / "secrets" / "shop" / "keys"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..2026" / "ACCESS_KEY_ID").write_text("key\n")
    (folder / "..data").symlink_to("..2026")
    (folder / "ACCESS_KEY_ID").symlink_to("..data/ACCESS_KEY_ID")
    return tmp_path / "secrets"


def test_values_are_those_of_now(mounted: Path) -> None:
    secrets = MountedSecrets(mounted)
    assert secrets.named("shop", "keys") == {"ACCESS_KEY_ID": "key"}
    (mounted / "shop" / "keys" / "..2026" / "ACCESS_KEY_ID").write_text("another")
    assert secrets.named("shop", "keys") == {"ACCESS_KEY_ID": "another"}


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("shop", "others"), ("", "keys"), ("shop", "../shop/keys"), ("..", "secrets"), ("a/b", "c")],
)
def test_there_is_no_other(mounted: Path, namespace: str, name: str) -> None:
    assert MountedSecrets(mounted).named(namespace, name) is None
    assert MountedSecrets(None).named("shop", "keys") is None


def test_what_is_no_text_is_none(mounted: Path) -> None:
    (mounted / "shop" / "keys" / "..2026" / "ACCESS_KEY_ID").write_bytes(b"\xff")
    assert MountedSecrets(mounted).named("shop", "keys") is None
