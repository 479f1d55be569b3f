"""A request is recognized in the bytes of real TLS conversations, however they are cut, and not
before the client has all that it needs to send it."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.fault_proxy.tls_records import RequestDetector

# Flights of each side in the longest handshake, that of TLS 1.2.
MESSAGES_OF_A_HANDSHAKE = 3
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Conversation:
    """A TLS client and server in memory whose bytes all pass a detector in pieces of `size`."""

    def __init__(
        self, folder: Path, version: ssl.TLSVersion, *, size: int, with_client_certificate: bool
    ) -> None:
        authority = Authority(folder, "ca")
        server_files = authority.issue_server("server", hosts=["localhost"])
        client_files = authority.issue_client("client", user="user", group="group")
        client = ssl.create_default_context(cafile=str(authority.bundle))
        client.minimum_version = client.maximum_version = version
        server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.bundle))
        server.load_cert_chain(server_files.certificate, server_files.key)
        if with_client_certificate:
            server.verify_mode = ssl.CERT_REQUIRED
            client.load_cert_chain(client_files.certificate, client_files.key)
        self.detector = RequestDetector()
        self._size = size
        pipes = [ssl.MemoryBIO() for _ in range(4)]
        self._client_in, self._client_out, self._server_in, self._server_out = pipes
        self.client = client.wrap_bio(
            self._client_in, self._client_out, server_hostname="localhost"
        )
        self.server = server.wrap_bio(self._server_in, self._server_out, server_side=True)

    def exchange(self) -> None:
        """Delivers what both sides have written, the server's bytes only until a request."""
        request = self._client_out.read()
        for start in range(0, len(request), self._size):
            self.detector.feed(request[start : start + self._size])
        self._server_in.write(request)
        response = self._server_out.read()
        if not self.detector.requested:
            self._client_in.write(response)

    def shake_hands(self) -> None:
        """Returns when both sides say that the handshake is complete."""
        for _ in range(MESSAGES_OF_A_HANDSHAKE):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            self.exchange()
            with contextlib.suppress(ssl.SSLWantReadError):
                self.server.do_handshake()
            self.exchange()
        assert self.client.version() is not None
        assert self.server.version() is not None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("with_client_certificate", [False, True])
@pytest.mark.parametrize("size", [1, 3, 64, 100_000])
def test_a_request_arrives_and_its_response_does_not(
    tmp_path: Path, version: ssl.TLSVersion, with_client_certificate: bool, size: int
) -> None:
    conversation = Conversation(
        tmp_path, version, size=size, with_client_certificate=with_client_certificate
    )
    conversation.shake_hands()
    conversation.client.write(b"GET / HTTP/1.1\r\n\r\n")
    conversation.exchange()
    assert conversation.detector.requested
    assert conversation.server.read() == b"GET / HTTP/1.1\r\n\r\n"
    conversation.server.write(b"HTTP/1.1 200 OK\r\n\r\n")
    conversation.exchange()
    with pytest.raises(ssl.SSLWantReadError):
        conversation.client.read()


def test_in_tls_1_2_a_handshake_is_no_request(tmp_path: Path) -> None:
    conversation = Conversation(
        tmp_path, ssl.TLSVersion.TLSv1_2, size=7, with_client_certificate=True
    )
    conversation.shake_hands()
    assert not conversation.detector.requested


def test_any_byte_is_a_request_without_tls() -> None:
    detector = RequestDetector()
    detector.feed(b"")
    assert not detector.requested
    detector.feed(b"G")
    assert detector.requested
