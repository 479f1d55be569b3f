"""The forms of names, labels and annotations.

Source of rules and words: apimachinery pkg/util/validation/validation.go and
pkg/api/validation/objectmeta.go. Each check returns what is wrong in words, "" if nothing is.
"""

import re

DNS_LABEL_LIMIT = 63
DNS_SUBDOMAIN_LIMIT = 253
LABEL_LIMIT = 63
# pkg/api/validation/objectmeta.go: TotalAnnotationSizeLimitB
ANNOTATIONS_LIMIT = 256 * 1024

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_is_label = re.compile(_LABEL, re.ASCII).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN, re.ASCII).fullmatch
_is_qualified = re.compile(_QUALIFIED, re.ASCII).fullmatch
_is_config_key = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII).fullmatch

LABEL_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    rf"for validation is '{_LABEL}(\.{_LABEL})*')"
)
_QUALIFIED_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED}')"
)
_LABEL_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is "
    r"'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_WORDS = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _length(text: str, limit: int) -> str:
    return f"must be no more than {limit} characters" if len(text) > limit else ""


def dns_label(text: str) -> str:
    """RFC 1123 label: namespaces."""
    if said := _length(text, DNS_LABEL_LIMIT):
        return said
    return "" if _is_label(text) else LABEL_WORDS


def dns_subdomain(text: str) -> str:
    """RFC 1123 subdomain: most names."""
    if said := _length(text, DNS_SUBDOMAIN_LIMIT):
        return said
    return "" if _is_subdomain(text) else SUBDOMAIN_WORDS


def path_segment(text: str) -> str:
    """What may stand in a URL: names that have no stricter rule (IsValidPathSegmentName)."""
    if text in (".", ".."):
        return f"may not be '{text}'"
    for character in "/%":
        if character in text:
            return f"may not contain '{character}'"
    return ""


def qualified_name(text: str) -> str:
    """A label's, annotation's or finalizer's key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return (
            "a qualified name "
            + _QUALIFIED_WORDS
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and (said := dns_subdomain(prefix)):
        return f"prefix part {said}"
    if not name:
        return "name part must be non-empty"
    if said := _length(name, LABEL_LIMIT):
        return f"name part {said}"
    return "" if _is_qualified(name) else f"name part {_QUALIFIED_WORDS}"


def label_value(text: str) -> str:
    if said := _length(text, LABEL_LIMIT):
        return said
    return "" if not text or _is_qualified(text) else _LABEL_VALUE_WORDS


def config_key(text: str) -> str:
    """A key of a ConfigMap's or Secret's data."""
    if said := _length(text, DNS_SUBDOMAIN_LIMIT):
        return said
    if not _is_config_key(text):
        return _CONFIG_KEY_WORDS
    if text == ".":
        return "must not be '.'"
    if text.startswith(".."):
        return "must not be '..'" if text == ".." else "must not start with '..'"
    return ""
