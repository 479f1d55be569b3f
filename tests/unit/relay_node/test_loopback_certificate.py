"""The certificate of a relay in a pod: trusted by itself alone, and it signs nothing else."""

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from edge_sidecars.runtime.cli.values import BadInput
from relay_node import ADDRESSES, NAMES
from relay_node.in_cluster.loopback_certificate import ensure_loopback_serving


def test_it_names_what_clients_of_a_pod_call_the_api_server(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(
        ensure_loopback_serving(tmp_path / "serving.pem").read_bytes()
    )
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == list(NAMES)
    there = [str(it) for it in names.get_values_for_type(x509.IPAddress)]
    assert there == list(ADDRESSES)


def test_it_is_no_authority_and_signs_itself(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(
        ensure_loopback_serving(tmp_path / "serving.pem").read_bytes()
    )
    certificate.verify_directly_issued_by(certificate)
    extensions = certificate.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert certificate.not_valid_before_utc.year == 2000


def test_the_key_is_its_owners_and_not_handed_out(tmp_path: Path) -> None:
    serving = tmp_path / "tls/serving.pem"
    handed_out = ensure_loopback_serving(serving)
    assert stat.S_IMODE(serving.stat().st_mode) == 0o600
    key = serialization.load_pem_private_key(serving.read_bytes(), password=None)
    certificate = x509.load_pem_x509_certificate(handed_out.read_bytes())
    assert key.public_key() == certificate.public_key()
    assert b"PRIVATE" not in handed_out.read_bytes()


def test_what_exists_stays_and_no_two_are_the_same(tmp_path: Path) -> None:
    first = ensure_loopback_serving(tmp_path / "a.pem").read_bytes()
    assert ensure_loopback_serving(tmp_path / "a.pem").read_bytes() == first
    assert ensure_loopback_serving(tmp_path / "b.pem").read_bytes() != first


@pytest.mark.parametrize("text", ["/", ".", "tls.crt"])
def test_a_file_that_the_certificate_cannot_be_beside_is_refused(tmp_path: Path, text: str) -> None:
    """tls.crt would lose its key."""
    serving = tmp_path / text if text == "tls.crt" else Path(text)
    with pytest.raises(BadInput, match=r"--serving .*: the certificate goes beside it"):
        ensure_loopback_serving(serving)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match=r"--serving .*file/serving.pem: .*; name a file in"):
        ensure_loopback_serving(tmp_path / "file/serving.pem")
