"""The grammar of shard selectors that clients write: `shardRange(field, 'start', 'end')` and `||`.

kube-apiserver reads a CEL expression, in which the same can be written in other ways (parentheses,
comments, raw strings). Guarantees: what is accepted, kube-apiserver accepts and means the same by
it. `BadSelector` says only that the text is not of this grammar: the API server alone judges it.
Source: k8s.io/apiserver v0.36, pkg/sharding/parser.go.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from edge_sidecars.apimachinery.go_format import quote
from edge_sidecars.apimachinery.selection.selector import BadSelector

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"
# A bound has 16 digits; 2^64, the exclusive end of the last range, is the only one of 17.
END = "0x10000000000000000"
# Characters: cel-go's limit of an expression.
_LONGEST = 100_000
_BOUND = rf"""(?:'(0x[0-9a-f]{{16}}|{END})'|"(0x[0-9a-f]{{16}}|{END})")"""
_FIELD = f"({re.escape(UID)}|{re.escape(NAMESPACE)})"
_RANGE = re.compile(
    rf"\s*shardRange\(\s*{_FIELD}\s*,\s*{_BOUND}\s*,\s*{_BOUND}\s*\)\s*".replace(
        r"\s", r"[ \t\r\n\f]"
    )
)


class ShardRange(NamedTuple):
    """As written: of the hash of `field`, from `start` up to but not including `end`."""

    field: str
    start: str
    end: str


def parse_ranges(text: str) -> Sequence[ShardRange]:
    """Raises BadSelector."""
    parts = text.split("||") if len(text) <= _LONGEST else []
    found = [_RANGE.fullmatch(part) for part in parts]
    ranges = [
        ShardRange(each[1], each[2] or each[3], each[4] or each[5])
        for each in found
        if each is not None
    ]
    is_of_one_field = len({each.field for each in ranges}) == 1
    are_ranges = all(int(each.start, 16) < int(each.end, 16) for each in ranges)
    if len(ranges) < len(found) or not is_of_one_field or not are_ranges:
        raise BadSelector(f"invalid shard selector: {quote(text[:80])}")
    return ranges
