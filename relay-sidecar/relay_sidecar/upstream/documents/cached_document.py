"""One document of upstream as it is kept: discovery, OpenAPI or version, in one of its forms."""

import gzip
import zlib
from typing import Final

from msgspec import Struct

JSON: Final = "application/json"
# What distinguishes variants of one media type (k8s.io/apiserver, endpoints/handlers/negotiation).
PARAMETERS: Final = ("g", "v", "as")

# Bytes of a document besides its own: its names and times (sys.getsizeof, rounded).
OVERHEAD: Final = 600


class CachedDocument(Struct, frozen=True):
    """`etag` as upstream quotes it, "" without; unix seconds: `since` then upstream has sent these
    bytes, `confirmed_at` for the last time."""

    content_type: str
    etag: str
    gzipped: bytes
    since: float
    confirmed_at: float

    @property
    def variant(self) -> str:
        return variant_of(self.content_type)

    def body(self) -> bytes:
        return zlib.decompress(self.gzipped, 16 + zlib.MAX_WBITS)


def gzipped_of(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


def media_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def variant_of(content_type: str) -> str:
    """A content type without what does not tell variants apart."""
    parameters = parameters_of(content_type)
    return ";".join(
        (media_of(content_type), *(f"{name}={parameters[name]}" for name in parameters))
    )


def parameters_of(content_type: str) -> dict[str, str]:
    given = dict(part.strip().partition("=")[::2] for part in content_type.split(";")[1:])
    return {name: given[name] for name in PARAMETERS if name in given}
