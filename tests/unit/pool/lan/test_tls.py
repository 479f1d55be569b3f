"""Who gets through the handshake of two members."""

import asyncio
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterable
from datetime import datetime
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pool_sidecar.core.members import common_name, to_der
from pool_sidecar.lan.certificate import Certificate, own_certificate
from pool_sidecar.lan.tls import client_context, limit_buffers, listener_context


def made(node: str) -> Certificate:
    with TemporaryDirectory() as folder:
        return own_certificate(Path(folder), node)


SERVER, CLIENT = made("n1"), made("n3")


def mimic(own: str, other: str) -> bytes:
    """What the directory takes for a certificate of `own`, under the name of `other`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name(other))])
    own_name = x509.SubjectAlternativeName([x509.DNSName(common_name(own))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(2100, 1, 1))
        .add_extension(own_name, critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def handshake(client: Certificate, trusted: Iterable[bytes]) -> bytes | None:
    """The client's certificate, where the listener believes it. Raises SSLError where not."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    at_client = client_context(client.certificate, client.key, [to_der(SERVER.certificate)])
    at_server = listener_context(SERVER.certificate, SERVER.key, trusted)
    ends = (
        at_client.wrap_bio(to_client, to_server),
        at_server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert(binary_form=True)


def test_a_member_that_publishes_another_ones_name_does_not_keep_that_one_out() -> None:
    known = to_der(CLIENT.certificate)
    for trusted in permutations([mimic("n0", "n3"), known, to_der(made("n2").certificate)]):
        assert handshake(CLIENT, trusted) == known


def test_a_key_and_its_successor_are_believed_in_any_order() -> None:
    successor = made("n3")
    for trusted in permutations([to_der(CLIENT.certificate), to_der(successor.certificate)]):
        for each in (CLIENT, successor):
            assert handshake(each, trusted) == to_der(each.certificate)


def test_a_certificate_that_only_has_the_name_of_a_member_is_refused() -> None:
    for trusted in ([], [to_der(made("n3").certificate)], [mimic("n0", "n3")]):
        with pytest.raises(ssl.SSLError):
            handshake(CLIENT, trusted)


# Bytes that asyncio holds for one connection, the head's buffer and OpenSSL's own not among them.
MOST = 64 * 1024
CONNECTIONS = 16


def test_a_stranger_that_only_connects_costs_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)  # put back afterwards
    limit_buffers()
    assert asyncio.run(_held_by_strangers()) < CONNECTIONS * MOST


async def _held_by_strangers() -> int:
    def protocol() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader())

    context = listener_context(SERVER.certificate, SERVER.key, ())
    loop = asyncio.get_running_loop()
    async with await loop.create_server(protocol, "127.0.0.1", 0, ssl=context) as server:
        address = server.sockets[0].getsockname()
        tracemalloc.start()
        try:
            strangers = [await asyncio.open_connection(*address) for _ in range(CONNECTIONS)]
            await asyncio.sleep(0.05)  # they are accepted in this time, or cost nothing yet
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        for _, writer in strangers:
            writer.close()
    return held
