"""The formats of strings and numbers that a schema can ask for.

Source of the list: apiextensions-apiserver pkg/apiserver/validation/formats.go; of the forms:
kube-openapi pkg/validation/strfmt. A format that is not listed there is not checked.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlsplit

from tools.local_apiserver.core import names

INT32_LIMIT = 2**31
INT64_LIMIT = 2**63

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_CREDIT_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|"
    r"(?:2131|1800|35\d{3})\d{11}|6[27]\d{14}",
    re.ASCII,
)
_EMAIL = re.compile(r"[^@\s<>()\[\],;:\\\"]+@[^@\s]+")
_HOSTNAME = re.compile(
    r"([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*\.?",
    re.ASCII,
)
_DURATION = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
# strfmt.ParseDuration also takes "3 days"
_DURATION_WORDS = re.compile(
    r"\s*\d+\s*(ns|nano|nanos?|nanosecs?|us|micro|micros?|microsecs?|µs|ms|milli|millis?|"
    r"millisecs?|s|secs?|seconds?|m|min|mins?|minutes?|h|hr|hrs?|hours?|d|days?|w|wk|wks?|weeks?)",
    re.ASCII | re.IGNORECASE,
)


def moment(value: str) -> datetime | None:
    """RFC 3339, in UTC; None where it is none."""
    found = _MOMENT.fullmatch(value)
    if found is None:
        return None
    day, time, fraction, zone = found.groups()
    offset = "+00:00" if zone in "Zz" else zone
    digits = (fraction or ".0")[1:7].ljust(6, "0")
    try:
        return datetime.fromisoformat(f"{day}T{time}.{digits}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_base64(value: str) -> bool:
    """RFC 4648, padded."""
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_date(value: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII) is None:
        return False
    return moment(f"{value}T00:00:00Z") is not None


def _is_address(kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> "Check":
    def check(value: str) -> bool:
        try:
            kind(value)
        except ValueError:
            return False
        return True

    return check


def _is_cidr(value: str) -> bool:
    if "/" not in value:
        return False
    try:
        ipaddress.ip_interface(value)
    except ValueError:
        return False
    return value.rpartition("/")[2].isdecimal()


def _is_uri(value: str) -> bool:
    """Go's url.ParseRequestURI: absolute, or a path."""
    if any(ord(character) < 0x20 or character == " " for character in value):
        return False
    try:
        found = urlsplit(value)
    except ValueError:
        return False
    return bool(found.scheme) or value.startswith("/")


def _is_duration(value: str) -> bool:
    if value == "0" or _DURATION_WORDS.fullmatch(value):
        return True
    at = 0
    while at < len(value) and (found := _DURATION.match(value, at)):
        at = found.end()
    return 0 < at == len(value)


def _is_isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    if re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * digit for place, digit in enumerate(values, 1)) % 11 == 0


def _is_isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]", "", value)
    if re.fullmatch(r"\d{13}", digits, re.ASCII) is None:
        return False
    return sum((1, 3)[place % 2] * int(digit) for place, digit in enumerate(digits)) % 10 == 0


def _is_credit_card(value: str) -> bool:
    digits = re.sub(r"[^0-9]", "", value)
    if _CREDIT_CARD.fullmatch(digits) is None:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _matches(pattern: str, flags: int = 0) -> "Check":
    compiled = re.compile(pattern, re.ASCII | flags)
    return lambda value: compiled.fullmatch(value) is not None


def _uuid(version: str) -> "Check":
    variant = "[89AB]" if version in "45" else "[0-9A-F]"
    if not version:
        return _matches(r"[0-9A-F]{8}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{4}-?[0-9A-F]{12}", re.I)
    return _matches(
        rf"[0-9A-F]{{8}}-?[0-9A-F]{{4}}-?{version}[0-9A-F]{{3}}-?{variant}[0-9A-F]{{3}}-?[0-9A-F]{{12}}",
        re.I,
    )


Check = Callable[[str], bool]

_rgb_part = r"\s*(?:[01]?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])\s*"

FORMATS: Mapping[str, Check] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": lambda value: _EMAIL.fullmatch(value) is not None,
    "hostname": lambda value: len(value) <= 255 and _HOSTNAME.fullmatch(value) is not None,
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "cidr": _is_cidr,
    "mac": _matches(
        r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}|([0-9a-f]{2}[:-]){7}[0-9a-f]{2}|([0-9a-f]{4}\.){2}[0-9a-f]{4}",
        re.I,
    ),
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
    "isbn": lambda value: _is_isbn10(value) or _is_isbn13(value),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\({_rgb_part},{_rgb_part},{_rgb_part}\)"),
    "byte": is_base64,
    "password": lambda value: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": lambda value: moment(value) is not None,
    "date-time": lambda value: moment(value) is not None,
    "k8s-short-name": lambda value: not names.dns_label(value),
    "k8s-long-name": lambda value: not names.dns_subdomain(value),
}


def is_in_range(value: int | float, format: str) -> bool:
    """Whether a number fits its format (int32, int64, float, double)."""
    match format:
        case "int32":
            return -INT32_LIMIT <= value < INT32_LIMIT
        case "int64":
            return -INT64_LIMIT <= value < INT64_LIMIT
        case "uint32":
            return 0 <= value < 2 * INT32_LIMIT
        case "uint64":
            return 0 <= value < 2 * INT64_LIMIT
        case _:
            return True
