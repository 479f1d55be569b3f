"""The node's own certificate authority, and the certificate that the relay shows to its clients.

No key of the cluster is ever on a node: what trusts the relay trusts this CA. Guarantees: A thief
of its key can speak for this machine's own addresses only (name constraints, RFC 5280 4.2.1.10).
The CA is made once and its key is readable by its owner only. Certificates are valid from 2000 on,
since the clock of a node that starts without a network may say anything. A file is there whole or
not at all. What exists and serves is left as it is.
"""

import datetime
import ipaddress
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from edge_sidecars.runtime.certificates.maker import Key, issue, key_pem, new_key, pem
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from relay_node import ADDRESSES, NAMES
from relay_node.file_state import read_regular, write_whole
from relay_node.installer.installation import PUBLIC_CA, SERVING

CA_LIFE: Final = datetime.timedelta(days=3650)
# Loopback and link-local: RFC 1122, 4291, 3927.
OWN_NETWORKS: Final = ("127.0.0.0/8", "::1/128", "169.254.0.0/16", "fe80::/10")
# In the data directory.
CA_KEY: Final = Path("ca.key")


def ensure_serving(data_dir: Path, addresses: Collection[str], *, now: datetime.datetime) -> str:
    """Makes the CA where there is none, and a serving certificate with its key in one file, anew
    at each call: for this machine, and for the link-local `addresses`. Where it cannot be written,
    as on a full disk, an earlier one that serves as well stays: returns why, else "". Raises
    `BadInput` naming the file or address."""
    check_addresses(addresses)
    try:
        public = (data_dir / PUBLIC_CA).parent
        public.mkdir(parents=True, exist_ok=True)
        # Whatever the umask: what runs in pods as no root reads there.
        public.chmod(0o755)
        key, certificate = _authority(data_dir, now)
        wanted = {*ADDRESSES, *addresses}
        try:
            write_whole(data_dir / SERVING, _serving(key, certificate, wanted), mode=0o600)
        except OSError as error:
            if not _serves(data_dir / SERVING, certificate, wanted):
                raise
            return f"{data_dir / SERVING} stays as it was: {error.strerror or error}"
        return ""
    except OSError as error:
        raise BadInput(
            f"{error.filename or data_dir}: {error.strerror or error}; name a --data-dir that can "
            "be written, on a disk that a reboot keeps"
        ) from error


def _authority(data_dir: Path, now: datetime.datetime) -> tuple[Key, x509.Certificate]:
    paths = data_dir / CA_KEY, data_dir / PUBLIC_CA
    if not any(path.exists() for path in paths):
        key = new_key()
        # Without its certificate the key is made anew: what trusts a CA names the certificate.
        write_whole(paths[0], key_pem(key), mode=0o600)
        write_whole(paths[1], pem(_self_signed(key, now)), mode=0o644)
    return _read_authority(*paths)


def authority_lack(data_dir: Path) -> str:
    """Why the next start of the relay could make no certificate, or ""."""
    paths = data_dir / CA_KEY, data_dir / PUBLIC_CA
    try:
        if any(path.exists() for path in paths):
            _read_authority(*paths)
    except BadInput as error:
        return str(error)
    return ""


def _read_authority(key_file: Path, certificate_file: Path) -> tuple[Key, x509.Certificate]:
    try:
        key = serialization.load_pem_private_key(read_regular(key_file), password=None)
        certificate = x509.load_pem_x509_certificate(read_regular(certificate_file))
    except (OSError, ValueError, TypeError) as error:
        why = describe_failure(error)
        raise BadInput(f"{key_file} with {certificate_file}: {why}; {_REMAKE}") from error
    if not isinstance(key, Key) or key.public_key() != certificate.public_key():
        raise BadInput(f"{key_file} is not the key of {certificate_file}; {_REMAKE}")
    return key, certificate


_REMAKE = "delete both, run this again, and restart all that read the certificate"


def _self_signed(key: Key, now: datetime.datetime) -> x509.Certificate:
    name, until = "relay-sidecar of this node", now + CA_LIFE
    return issue(name, key.public_key(), key=key, until=until, may_sign_for=_own_names())


def _own_names() -> list[x509.GeneralName]:
    networks = [x509.IPAddress(ipaddress.ip_network(each)) for each in OWN_NETWORKS]
    return [*(x509.DNSName(each) for each in NAMES), *networks]


def check_addresses(addresses: Collection[str]) -> None:
    """Raises `BadInput` for one that is not of this machine alone."""
    for address in addresses:
        _check_own(address)


def _check_own(address: str) -> None:
    networks = [ipaddress.ip_network(each) for each in OWN_NETWORKS]
    try:
        is_own = any(ipaddress.ip_address(address) in network for network in networks)
    except ValueError:
        is_own = False
    if not is_own:
        raise BadInput(
            f"{address} is no address of this machine alone: use a link-local one, like "
            "169.254.20.11"
        )


def _serving(ca_key: Key, ca: x509.Certificate, addresses: Iterable[str]) -> bytes:
    key, names = new_key(), (*NAMES, *sorted(addresses))
    until = ca.not_valid_after_utc
    made = issue("relay-sidecar", key.public_key(), key=ca_key, issuer=ca, names=names, until=until)
    return pem(made) + key_pem(key)


def _serves(file: Path, ca: x509.Certificate, addresses: Iterable[str]) -> bool:
    """Whether the file has a key with a certificate of the CA for these addresses."""
    try:
        content = file.read_bytes()
        certificate = x509.load_pem_x509_certificate(content)
        key = serialization.load_pem_private_key(content, password=None)
        certificate.verify_directly_issued_by(ca)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    there = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    return key.public_key() == certificate.public_key() and there.issuperset(addresses)
