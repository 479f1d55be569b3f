"""The label that stands on an object for each node that it concerns.

Guarantees: a legal label key for any text; two nodes never share one, since what is hashed has an
underscore, which no node's name has (RFC 1123 subdomain).
"""

import hashlib
import re
from typing import Final

PREFIX: Final = "sedna.io/"
_NAME: Final = "node."
# k8s.io/apimachinery/pkg/util/validation: qualifiedNameMaxLength, and what a name may consist of.
_LONGEST: Final = 63
_LEGAL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?", re.ASCII)
_ILLEGAL: Final = re.compile(r"[^-A-Za-z0-9.]", re.ASCII)
# Hexadecimal digits: 80 bits, so that nobody finds two names with one hash by chance.
_DIGITS: Final = 20


def node_label(node: str) -> str:
    """`sedna.io/node.<node>`, or the beginning of the name and a hash where that is no label."""
    name = _NAME + node
    if len(name) <= _LONGEST and _LEGAL.fullmatch(node):
        return PREFIX + name
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGITS]
    head = _ILLEGAL.sub("-", name)[: _LONGEST - _DIGITS - 1]
    return f"{PREFIX}{head}_{digest}"
