"""Makes certificates of keys on the curve P-256; `python -m … COMMON_NAME [NAME…]` prints a
self-signed one, then its key, both in PEM: the one of a TLS server where it has NAMEs.

Guarantees: what is made is valid from 2000 on, whatever the clock of a node without a network says;
a self-signed certificate is no authority. What lives on does not import this, but calls
`self_signed`: the package `cryptography` takes 8 MiB.
"""

import ipaddress
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey

VALID_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)
# RFC 5280 4.1.2.5: no certain end. The client that trusts a self-signed one decides on its life.
NO_END: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def issue(
    common_name: str,
    public: ec.EllipticCurvePublicKey,
    *,
    key: Key,
    issuer: x509.Certificate | None = None,
    names: Iterable[str] = (),
    until: datetime = NO_END,
    may_sign_for: Iterable[x509.GeneralName] | None = None,
) -> x509.Certificate:
    """`key`: the one that signs, which is that of `issuer`, or of `public`. `names`: of a TLS
    server; `may_sign_for`: of an authority (RFC 5280 4.2.1.10)."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    is_authority = may_sign_for is not None
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(VALID_FROM)
        .not_valid_after(until)
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None),
            critical=True,
        )
        .add_extension(_key_usage(signs=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    if not is_authority:
        builder = builder.add_extension(by, critical=False)
    if alternatives := list(map(_general_name, names)):
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(purposes, critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    if may_sign_for is not None:
        limits = x509.NameConstraints(list(may_sign_for), None)
        builder = builder.add_extension(limits, critical=True)
    return builder.sign(key, hashes.SHA256())


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def main(common_name: str, *names: str) -> None:
    key = new_key()
    made = pem(issue(common_name, key.public_key(), key=key, names=names))
    sys.stdout.write((made + key_pem(key)).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
