"""Which bytes are a key, and which bytes a sealed row is bound to.

Guarantees: two rows that differ in any of resource, namespace, name, uid or version never have the
same associated data; no message contains anything of a key. Knows no cipher and no file.
"""

import re
from base64 import b64decode

from edge_sidecars.runtime.cli.values import BadInput

# AES-256.
KEY_SIZE = 32
_HEX = re.compile(rb"[0-9a-fA-F]{64}")
# Of 32 bytes, RFC 4648 sections 4 and 5.
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{43}=?")
_URL_SAFE = bytes.maketrans(b"-_", b"+/")
_TEXT = frozenset(b"\t\n\r") | frozenset(range(0x20, 0x7F))


def parse_key(content: bytes) -> bytes:
    """The key that a file of this content holds: 32 raw bytes, 64 hex characters or 44 base64
    characters (either alphabet, the padding may be left out), the text with whitespace around it.

    Raises `BadInput`: how the content differs, without the content.
    """
    key = content if len(content) == KEY_SIZE else _from_text(content.strip())
    if key is None:
        raise BadInput(_describe(content))
    if key is content and _TEXT.issuperset(content):
        # Of random bytes, less than one in 10^13 is.
        raise BadInput("it holds 32 characters of text, which are not 32 random bytes")
    if len(set(key)) == 1:
        raise BadInput("it holds the same byte 32 times, which is not random")
    return key


def _from_text(text: bytes) -> bytes | None:
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    if _BASE64.fullmatch(text):
        return b64decode(text.translate(_URL_SAFE).rstrip(b"=") + b"=")
    return None


def _describe(content: bytes) -> str:
    if not content.strip():
        return "it is empty"
    return f"its {len(content)} bytes are neither 32 raw bytes nor 64 hex nor 44 base64 characters"


def associated_data(*, resource: str, namespace: str, name: str, uid: str, version: int) -> bytes:
    """What a sealed row is authenticated with besides its content: each part after its length in
    bytes (8, big-endian), so that no part can run into the next."""
    parts = (resource, namespace, name, uid, str(version))
    encoded = (part.encode() for part in parts)
    return b"".join(len(part).to_bytes(8, "big") + part for part in encoded)
