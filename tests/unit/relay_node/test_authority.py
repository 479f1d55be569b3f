"""The node's own CA: what trusts it, for which names, at which time, and what is on disk."""

import datetime
import os
import resource
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.commands.node import main
from relay_node.installer.authority import CA_KEY, ensure_serving
from relay_node.installer.installation import PUBLIC_CA, SERVING

NOW = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
POD_ADDRESS = "169.254.20.11"


def shake_hands(data_dir: Path, name: str) -> None:
    """A client that trusts the CA asks for `name`. Raises ssl.SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(data_dir / SERVING)
    client = ssl.create_default_context(cafile=str(data_dir / PUBLIC_CA))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=name).close()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "::1", POD_ADDRESS, "kubernetes.default.svc", "localhost"]
)
def test_what_clients_call_the_relay_is_in_its_certificate(tmp_path: Path, name: str) -> None:
    ensure_serving(tmp_path, [POD_ADDRESS], now=NOW)
    shake_hands(tmp_path, name)


@contextmanager
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_where_none_can_be_written_the_earlier_certificate_serves(tmp_path: Path) -> None:
    assert ensure_serving(tmp_path, [POD_ADDRESS], now=NOW) == ""
    before = (tmp_path / SERVING).read_bytes()
    with full_disk():
        why = ensure_serving(tmp_path, [POD_ADDRESS], now=NOW)
    assert why == f"{tmp_path / SERVING} stays as it was: File too large"
    assert (tmp_path / SERVING).read_bytes() == before
    shake_hands(tmp_path, POD_ADDRESS)
    assert ensure_serving(tmp_path, [POD_ADDRESS], now=NOW) == ""
    assert (tmp_path / SERVING).read_bytes() != before


def test_an_earlier_certificate_that_does_not_serve_is_none(tmp_path: Path) -> None:
    ensure_serving(tmp_path, [], now=NOW)
    serving = (tmp_path / SERVING).read_bytes()
    other = tmp_path / "other"
    ensure_serving(other, [POD_ADDRESS], now=NOW)
    of_another_ca = (other / SERVING).read_bytes()
    for content in (serving, of_another_ca, serving[:200], b""):
        (tmp_path / SERVING).write_bytes(content)
        with full_disk(), pytest.raises(BadInput, match="File too large; name a --data-dir"):
            ensure_serving(tmp_path, [POD_ADDRESS], now=NOW)


def test_another_name_is_not(tmp_path: Path) -> None:
    ensure_serving(tmp_path, [], now=NOW)
    with pytest.raises(ssl.SSLError):
        shake_hands(tmp_path, POD_ADDRESS)


def test_the_ca_speaks_for_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has its key issues a certificate for the API server's own address."""
    monkeypatch.setattr("relay_node.installer.authority._check_own", lambda _: None)
    ensure_serving(tmp_path, ["10.0.0.1"], now=NOW)
    with pytest.raises(ssl.SSLError, match="permitted subtree violation"):
        shake_hands(tmp_path, "10.0.0.1")


@pytest.mark.parametrize("address", ["10.0.0.1", "0.0.0.0", "edge-1", ""])
def test_an_address_of_another_machine_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(BadInput, match="link-local"):
        ensure_serving(tmp_path, [address], now=NOW)
    assert not any(tmp_path.iterdir())


def test_a_wrong_clock_makes_no_certificate_invalid(tmp_path: Path) -> None:
    ensure_serving(tmp_path, [], now=NOW)
    for file in (SERVING, PUBLIC_CA):
        it = x509.load_pem_x509_certificate((tmp_path / file).read_bytes())
        assert it.not_valid_before_utc.year == 2000
        assert it.not_valid_after_utc > NOW + datetime.timedelta(days=3600)


def test_the_ca_stays_and_the_certificate_is_made_anew(tmp_path: Path) -> None:
    ensure_serving(tmp_path, [], now=NOW)
    ca, key, serving = ((tmp_path / each).read_bytes() for each in (PUBLIC_CA, CA_KEY, SERVING))
    ensure_serving(tmp_path, [POD_ADDRESS], now=NOW)
    assert (tmp_path / PUBLIC_CA).read_bytes() == ca
    assert (tmp_path / CA_KEY).read_bytes() == key
    assert (tmp_path / SERVING).read_bytes() != serving
    shake_hands(tmp_path, POD_ADDRESS)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    ensure_serving(tmp_path, [], now=NOW)
    modes = {each: stat.S_IMODE((tmp_path / each).stat().st_mode) for each in (CA_KEY, SERVING)}
    assert modes == {CA_KEY: 0o600, SERVING: 0o600}
    assert stat.S_IMODE((tmp_path / PUBLIC_CA).stat().st_mode) == 0o644
    assert b"PRIVATE" not in (tmp_path / PUBLIC_CA).read_bytes()


def test_a_ca_of_which_a_part_is_missing_or_foreign_is_named(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for each in (first, second):
        ensure_serving(each, [], now=NOW)
    (first / CA_KEY).write_bytes((second / CA_KEY).read_bytes())
    with pytest.raises(BadInput, match=r"ca.key is not the key of .*; delete both"):
        ensure_serving(first, [], now=NOW)
    (first / CA_KEY).write_bytes(b"no key")
    with pytest.raises(BadInput, match="delete both"):
        ensure_serving(first, [], now=NOW)
    (first / CA_KEY).unlink()
    with pytest.raises(BadInput, match=r"ca.key .*No such file.*; delete both"):
        ensure_serving(first, [], now=NOW)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"file.*--data-dir"):
        ensure_serving(tmp_path / "file", [], now=NOW)


def test_what_clients_read_is_readable_to_them_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        ensure_serving(tmp_path / "data", [], now=NOW)
    finally:
        os.umask(before)
    ca = tmp_path / "data" / PUBLIC_CA
    assert stat.S_IMODE(ca.parent.stat().st_mode) == 0o755
    assert stat.S_IMODE(ca.stat().st_mode) == 0o644


def test_without_its_extra_a_command_says_which_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.delitem(sys.modules, "relay_node.installer.authority")
    assert main(["prepare", f"--data-dir={tmp_path}"], {}) == 2
    assert "install the extra node" in capsys.readouterr().err
