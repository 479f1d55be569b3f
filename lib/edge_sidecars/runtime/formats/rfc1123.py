"""The names that Kubernetes takes: RFC 1123 labels and subdomains, label keys and values. Pure.

Owns the patterns and their lengths; what a message says of a name, its reader decides.
Source: k8s.io/apimachinery v0.36, pkg/api/validate/content/{dns,kube}.go.
"""

import re
from typing import Final

MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253

LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN: Final = rf"{LABEL}(\.{LABEL})*"
# The part of a label's key behind its prefix.
QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL, _SUBDOMAIN, _QUALIFIED = map(re.compile, (LABEL, SUBDOMAIN, QUALIFIED))


def is_label(text: str) -> bool:
    """The name of a namespace, among others."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """The name of most objects."""
    return len(text) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """With a prefix, or without one."""
    prefix, slash, name = text.rpartition("/")
    is_prefixed = not slash or is_subdomain(prefix)
    return is_prefixed and len(name) <= MAX_LABEL and _QUALIFIED.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    return not text or (len(text) <= MAX_LABEL and _QUALIFIED.fullmatch(text) is not None)
