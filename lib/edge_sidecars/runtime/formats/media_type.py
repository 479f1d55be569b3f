"""Media types of headers (RFC 9110, 8.3.1)."""

from typing import Final

# Of pages for people: of a gateway, a portal or a login before a server, whatever status they come
# with. kube-apiserver has none.
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})


def media_type(content_type: str) -> str:
    """Of a header Content-Type, without its parameters; "" for none."""
    return content_type.partition(";")[0].strip().lower()


def is_page(content_type: str) -> bool:
    return media_type(content_type) in _PAGES


def is_document(content_type: str) -> bool:
    """Whether it may be an object or a Status, which kube-apiserver has in several formats, and not
    the text of a gateway whose backend is away."""
    return media_type(content_type).startswith("application/") and not is_page(content_type)
