"""A pod's credentials: re-read when they change, kept when they cannot be read for a moment."""

import asyncio
import os
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import InCluster, Plain, UnusableCredentials
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory


@pytest.fixture
def authority(tmp_path: Path) -> bytes:
    return Authority(tmp_path, "ca").bundle.read_bytes()


@pytest.fixture
def folder(tmp_path: Path, authority: bytes) -> ServiceAccountDirectory:
    return ServiceAccountDirectory(
        tmp_path / "account", token="first", ca=authority, namespace="ns"
    )


def authorization(credentials: InCluster) -> str | None:
    return asyncio.run(credentials.authorization())


def test_a_token_that_kubelet_swaps_is_used_at_once(folder: ServiceAccountDirectory) -> None:
    credentials = InCluster("https://h", folder.path)
    assert authorization(credentials) == "Bearer first"
    folder.replace(token="second")
    assert authorization(credentials) == "Bearer second"
    folder.replace(token="third!")
    assert authorization(credentials) == "Bearer third!"


def test_a_token_of_the_same_length_written_in_place_is_used_too(
    folder: ServiceAccountDirectory,
) -> None:
    credentials = InCluster("https://h", folder.path)
    file = folder.path / "token"
    file.write_text("other")
    os.utime(file, ns=(1, 1))
    assert authorization(credentials) == "Bearer other"


def test_a_ca_that_is_rotated_makes_a_new_context(
    folder: ServiceAccountDirectory, tmp_path: Path
) -> None:
    credentials = InCluster("https://h", folder.path)
    before = credentials.tls()
    assert credentials.tls() is before
    folder.replace(ca=Authority(tmp_path, "next").bundle.read_bytes())
    after = credentials.tls()
    assert after is not None
    assert after is not before
    assert "next" in str(after.get_ca_certs())


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe", b"two\nlines", b"two words"])
def test_a_token_that_is_unusable_for_a_moment_keeps_the_last_good_one(
    folder: ServiceAccountDirectory, content: bytes | None
) -> None:
    credentials = InCluster("https://h", folder.path)
    data = folder.path / "..data" / "token"
    data.unlink()
    if content is not None:
        data.write_bytes(content)
    assert authorization(credentials) == "Bearer first"
    folder.replace(token="second")
    assert authorization(credentials) == "Bearer second"


def test_a_ca_that_is_half_written_keeps_the_last_good_one(
    folder: ServiceAccountDirectory, authority: bytes
) -> None:
    credentials = InCluster("https://h", folder.path)
    before = credentials.tls()
    folder.replace(ca=authority[: len(authority) // 2])
    assert credentials.tls() is before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("token", None),
        ("token", b""),
        ("token", b"a\nb"),
        ("ca.crt", None),
        ("ca.crt", b"no certificate"),
    ],
)
def test_what_is_missing_at_the_start_is_named_with_the_remedy(
    folder: ServiceAccountDirectory, name: str, content: bytes | None
) -> None:
    data = folder.path / "..data" / name
    data.unlink()
    if content is not None:
        data.write_bytes(content)
    with pytest.raises(UnusableCredentials) as raised:
        InCluster("https://h", folder.path)
    assert str(folder.path) in str(raised.value)
    assert "--kubeconfig" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_message_shows_a_token(folder: ServiceAccountDirectory) -> None:
    folder.replace(token="secret words")
    with pytest.raises(UnusableCredentials) as raised:
        InCluster("https://h", folder.path)
    assert "secret" not in str(raised.value)


def test_plain_has_neither_tls_nor_token() -> None:
    credentials = Plain("http://127.0.0.1:8001/")
    assert credentials.server == "http://127.0.0.1:8001"
    assert credentials.tls() is None
    assert asyncio.run(credentials.authorization()) is None
