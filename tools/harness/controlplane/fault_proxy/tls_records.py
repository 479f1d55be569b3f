"""Recognizes, from a client's encrypted bytes, that it may have sent a request.

Guarantees: counts TLS records by their plain five-byte headers (RFC 8446, section 5.1) however
the bytes are cut into chunks. Once a client has sent its first `application_data` record, it
needs nothing more of the server to finish the handshake: in TLS 1.2 that record is the request,
in TLS 1.3 the disguised end of the client's handshake, and after it the server's bytes are only
session tickets and responses. Plain TCP: any byte may be a request.
"""

from __future__ import annotations

HEADER_LENGTH = 5
# Content types of RFC 8446, section 5.1.
HANDSHAKE = 22
APPLICATION_DATA = 23


class RequestDetector:
    """Fed with all bytes of one client in order; `requested` tells about all of them."""

    def __init__(self) -> None:
        self.requested = False
        self._is_tls: bool | None = None
        self._header = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Takes note of the next bytes."""
        if self._is_tls is None and data:
            self._is_tls = data[0] == HANDSHAKE
        if not self._is_tls:
            self.requested = self.requested or bool(data)
        while data and not self.requested:
            skipped = min(self._left, len(data))
            self._left -= skipped
            data = data[skipped:]
            wanted = HEADER_LENGTH - len(self._header)
            if self._left == 0 and data:
                self._header += data[:wanted]
                data = data[wanted:]
            if len(self._header) == HEADER_LENGTH:
                self.requested = self._header[0] == APPLICATION_DATA
                self._left = int.from_bytes(self._header[3:], "big")
                self._header.clear()
