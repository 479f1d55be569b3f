"""TLS between members: 1.3, and both ends prove who they are.

Guarantees: the client believes exactly the certificates of the member that it dials, the listener
exactly those of the directory; no session is resumed, so that who left the directory is refused
from its next connection on.
"""

import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterable
from typing import Final

from edge_sidecars.kubeapi.credentials import present

# Bytes that asyncio reads at once: a record of TLS. It takes them for each connection when that
# begins, and by default 256 KiB: 40 MB in a pool of 64, and 80 for strangers that only connect.
_READ: Final = 16 * 1024


def limit_buffers() -> None:
    """Of all TLS connections of this process, once at its start."""
    SSLProtocol.max_size = _READ


def listener_context(
    certificate: str,
    key: str,
    peers: Iterable[bytes],
    *,
    lets_in: Callable[[str], bool] | None = None,
) -> ssl.SSLContext:
    """`peers`: certificates in DER. `lets_in`: whether who dials this name gets further than to say
    so; before that no key of ours is used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if lets_in is not None:

        def named(_: object, name: str | None, __: ssl.SSLContext) -> int | None:
            return None if lets_in(name or "") else ssl.ALERT_DESCRIPTION_ACCESS_DENIED

        context.sni_callback = named
    # A ticket would let a former member in.
    context.num_tickets = 0
    return _completed(context, certificate, key, peers)


def client_context(certificate: str, key: str, peer: Iterable[bytes]) -> ssl.SSLContext:
    """`peer`: the certificates of the one member that is dialled."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate itself is pinned; it has no address in it.
    context.check_hostname = False
    return _completed(context, certificate, key, peer)


def is_pair(certificate: str, key: str) -> bool:
    """Whether they are a certificate and its key."""
    try:
        present(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate.encode(), key.encode())
    except (ValueError, OSError):
        return False
    return True


def _completed(
    context: ssl.SSLContext, certificate: str, key: str, trusted: Iterable[bytes]
) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    # Python 3.13's default asks for extensions that a pinned certificate does not need.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    # A certificate is believed because it is one of these, byte for byte. Else OpenSSL looks for
    # its issuer by name and takes the first one: a member that publishes another one with the name
    # of a neighbour, or a neighbour's new one, would keep that neighbour out.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    present(context, certificate.encode(), key.encode())
    for each in trusted:
        try:
            context.load_verify_locations(cadata=each)
        except ssl.SSLError:
            continue  # Of a member that published what is no certificate: it cannot prove it.
    return context
