"""The target of a request with a shardSelector, as upstream is asked: without it.

Guarantees: every other parameter stays as the client wrote it, but `includeObject=None`: by what a
row of a Table is about, its shard is found.
"""

from typing import Final
from urllib.parse import unquote_plus

from edge_sidecars.apimachinery.request.list_options import SHARD_SELECTOR

INCLUDE_OBJECT: Final = "includeObject"
# k8s.io/apimachinery, pkg/apis/meta/v1: IncludeObjectPolicy.
NO_OBJECT: Final = "None"


def upstream_target(target: str) -> str:
    """`target` as in the request's first line."""
    path, _, query = target.partition("?")
    pairs = [
        f"{INCLUDE_OBJECT}=Metadata" if _read(pair) == (INCLUDE_OBJECT, NO_OBJECT) else pair
        for pair in query.split("&")
        if _read(pair)[0] != SHARD_SELECTOR
    ]
    return f"{path}?{'&'.join(pairs)}" if any(pairs) else path


def _read(pair: str) -> tuple[str, str]:
    name, _, value = pair.partition("=")
    return unquote_plus(name), unquote_plus(value)
