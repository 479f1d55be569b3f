"""One document of upstream in its forms; of discovery, plain lists and aggregated, learned from
each other.

Clients ask for either. Guarantees: of two answers about a group version the later one counts, in
whichever form it came, and both forms say it; otherwise a form is what upstream sent. Pure.
"""

import gzip
import zlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from edge_sidecars.apimachinery.discovery import (
    AGGREGATED,
    group_version_paths,
    named_versions,
    names_of_list,
    parts_of_core,
    parts_of_groups,
    with_lists,
)
from edge_sidecars.apimachinery.objects import Malformed
from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.log import fields, logger, sparing

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


def variant_of(content_type: str) -> str:
    """A content type without what does not tell variants apart."""
    parameters = parameters_of(content_type)
    return ";".join(
        (media_type(content_type), *(f"{name}={parameters[name]}" for name in parameters))
    )


def parameters_of(content_type: str) -> dict[str, str]:
    given = dict(part.strip().partition("=")[::2] for part in content_type.split(";")[1:])
    return {name: given[name] for name in PARAMETERS if name in given}


_OPENAPI: Final = "/openapi/v3"


class Derived(Struct, frozen=True):
    """The aggregated document, and what it says that the ones at other paths would, by path."""

    aggregated: CachedDocument
    parts: dict[str, CachedDocument]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(len(it.gzipped) + OVERHEAD for it in (self.aggregated, *self.parts.values()))


def is_aggregated(document: CachedDocument) -> bool:
    return any(document.variant == variant_of(form) for form in AGGREGATED)


def derived(root: str, aggregated: CachedDocument, lists: Mapping[str, CachedDocument]) -> Derived:
    """`lists`: plain documents below `root`, by path."""
    try:
        document = _merged(root, aggregated, lists)
        read = parts_of_core if root == "/api" else parts_of_groups
        parts = read(document.body())
    except Malformed as error:
        if sparing.allows("discovery", root):
            logger.warning(
                "upstream's discovery cannot be read", extra=fields(path=root, why=error)
            )
        return Derived(aggregated, {})
    return Derived(
        document,
        {
            path: CachedDocument(JSON, "", gzipped_of(body), document.since, document.confirmed_at)
            for path, body in parts.items()
        },
    )


def contradicted(
    root: str, discovery: CachedDocument, below: Mapping[str, CachedDocument], *, before: float
) -> list[str]:
    """The paths of what was confirmed before that wall time only, and which `discovery`, aggregated
    or the plain list of groups, does not name, or names with other resources."""
    try:
        if is_aggregated(discovery):
            named = named_versions(discovery.body())
        elif root == "/apis":
            prefix = f"{root}/"
            paths = group_version_paths(discovery.body())
            named = dict.fromkeys((path.removeprefix(prefix) for path in paths), None)
        else:
            return []
        old = {path: one for path, one in below.items() if one.confirmed_at < before}
        return [path for path, one in old.items() if _is_contradicted(root, path, one, named)]
    except Malformed:
        return []


def _is_contradicted(
    root: str, path: str, document: CachedDocument, named: Mapping[str, frozenset[str] | None]
) -> bool:
    name = path.removeprefix(_OPENAPI).removeprefix(f"{root}/")
    if root == "/apis" and "/" not in name:
        return not any(version.startswith(f"{name}/") for version in named)
    if name not in named:
        return True
    resources = named[name]
    if resources is None or path.startswith(_OPENAPI) or document.variant != JSON:
        return False
    return names_of_list(document.body()) != resources


def _merged(
    root: str, aggregated: CachedDocument, lists: Mapping[str, CachedDocument]
) -> CachedDocument:
    """With the lists that are newer, and say something else. Raises `Malformed`."""
    newer = {
        path.removeprefix(f"{root}/"): one
        for path, one in lists.items()
        if one.since > aggregated.since and path.count("/") == root.count("/") + _depth(root)
    }
    if not newer:
        return aggregated
    named = named_versions(aggregated.body())
    bodies = {name: one.body() for name, one in newer.items()}
    news = {
        name: body
        for name, body in bodies.items()
        if name not in named or named[name] != names_of_list(body)
    }
    if not news:
        return aggregated
    return msgspec.structs.replace(
        aggregated,
        etag="",
        gzipped=gzipped_of(with_lists(aggregated.body(), news)),
        since=max(newer[name].since for name in news),
        confirmed_at=max(newer[name].confirmed_at for name in news),
    )


def _depth(root: str) -> int:
    """Segments of a group version's path below `root`."""
    return 1 if root == "/api" else 2
