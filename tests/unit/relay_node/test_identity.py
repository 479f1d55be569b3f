"""Whose a client certificate is that kubelet's kubeconfig names."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.identity import common_name


def certificate(*names: str) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names])
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1)
    valid = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return valid.sign(key, hashes.SHA256())


@pytest.mark.parametrize("names", [(), ("system:node:n1",)])
def test_the_user_is_the_only_common_name(names: tuple[str, ...]) -> None:
    assert common_name(certificate(*names), "it") == "".join(names)


def test_several_common_names_are_refused() -> None:
    """The API server takes the last one of them, and others take the first."""
    with pytest.raises(BadInput, match=r"^it has several common names, system:node:n1, admin: "):
        common_name(certificate("system:node:n1", "admin"), "it")
