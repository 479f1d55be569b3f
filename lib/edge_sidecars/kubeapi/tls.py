"""TLS contexts of a client, made of what is in memory.

Guarantees: no certificate and no key is ever written to a file system; an encrypted key is refused,
there is no prompt for its password.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

# Kubernetes' own CAs often lack what strict RFC 5280 checking (Python 3.13's default) wants.
_TOO_STRICT = ssl.VERIFY_X509_STRICT


def client_context(authorities: bytes | None, *, is_insecure: bool = False) -> ssl.SSLContext:
    """A context that trusts exactly `authorities` (PEM), or those of the system where None.

    `is_insecure`: any server is believed. Raises ValueError or ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags &= ~_TOO_STRICT
    if is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        # Text beside the certificates may be in any language.
        context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
    return context


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Lets `context` prove who we are with the pair, both PEM.

    Raises ValueError or ssl.SSLError where they are no such things or do not fit each other.
    """
    with _in_memory("certificate", certificate) as first, _in_memory("key", key) as second:
        context.load_cert_chain(first, second, password=_refuse_password)


@contextmanager
def _in_memory(name: str, content: bytes) -> Iterator[str]:
    """The path of a file that is on no disk and is gone when the block, or the process, ends:
    OpenSSL takes a pair from files only."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _refuse_password() -> str:
    raise ValueError("the client key is encrypted: keep it without a password, in a file of 0600")
