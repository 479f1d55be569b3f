"""Certificates of a test control plane: an authority, and what it issues to servers and clients.

Guarantees: keys never leave the folder that they are written to and are readable by their
owner only (an authority's own is in memory only, unless it is asked for); everything passes the
strict checks of OpenSSL (authority and subject key identifiers, key usage), which Python 3.13
makes its default. Knows nothing of Kubernetes beyond its convention that a client's common name
is the user and its organization the group.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Longer than any test, shorter than anyone would copy for production.
VALIDITY = datetime.timedelta(days=7)
# A certificate is valid from before now, since clocks of containers differ.
CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class CertificateFiles:
    """The paths of a certificate and of its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose own certificate lies at `bundle`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _name(name)
        self._key_file = folder / f"{name}.key"
        self.bundle = folder / f"{name}.crt"
        public = self._key.public_key()
        certificate = (
            _builder(self._subject, self._subject, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def key_file(self) -> Path:
        """Its key, for the controller that signs requests for certificates."""
        if not self._key_file.exists():
            write_private_key(self._key_file, self._key)
        return self._key_file

    def issue_server(self, name: str, *, hosts: Collection[str]) -> CertificateFiles:
        """A serving certificate for the host names and IP addresses in `hosts`."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def issue_client(
        self, name: str, *, user: str, group: str, validity: datetime.timedelta = VALIDITY
    ) -> CertificateFiles:
        """A client certificate that kube-apiserver reads as `user` in `group`."""
        usage = ExtendedKeyUsageOID.CLIENT_AUTH
        return self._issue(name, _name(user, group), usage, None, validity=validity)

    def _issue(
        self,
        file_name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        *,
        validity: datetime.timedelta = VALIDITY,
    ) -> CertificateFiles:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_key = self._key.public_key()
        builder = (
            _builder(subject, self._subject, key.public_key(), validity)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        files = CertificateFiles(
            self._folder / f"{file_name}.crt", self._folder / f"{file_name}.key"
        )
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_private_key(files.key, key)
        return files


def write_private_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Writes the key as unencrypted SEC 1 PEM ("EC PRIVATE KEY"), readable by the owner only.

    kube-apiserver finds the public key of service accounts in this form, not in PKCS #8:
    client-go's util/keyutil/key.go."""
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    validity: datetime.timedelta = VALIDITY,
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + validity)
    )


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
