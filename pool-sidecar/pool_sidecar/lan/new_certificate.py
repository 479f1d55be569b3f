"""Prints a new self-signed certificate, then its key, both in PEM: `python -m … COMMON_NAME`.

A program of its own, since what it imports takes 8 MiB, once in the life of a node.
"""

import sys
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def main(common_name: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Its life is the directory's: no clock of a node that is cut off decides.
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(2100, 1, 1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    sys.stdout.write((certificate.public_bytes(serialization.Encoding.PEM) + private).decode())


if __name__ == "__main__":
    main(sys.argv[1])
