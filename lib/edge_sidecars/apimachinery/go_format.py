"""Texts as Go reads and writes them, so that messages are kube-apiserver's to the letter.

Owns: quoting (strconv.Quote), JSON (encoding/json), integers (strconv.ParseInt, ParseUint) with
their errors, and query strings (net/url.ParseQuery). Knows nothing of Kubernetes.
"""

import json
import re
from collections.abc import Mapping
from urllib.parse import unquote_plus

MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)
MAX_UINT64 = 2**64 - 1

# More than the 20 digits of MAX_UINT64.
_DIGITS_MAX = 21
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_HTML_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
# Beyond printable ASCII without quotes and backslashes; a caller's text may have megabytes of that.
_UNUSUAL = re.compile(r"[^ !#-\[\]-~]")
# net/url, defaultMaxParams: of a query with more, kube-apiserver looks at none.
MAX_PARAMETERS = 10_000
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


def quote(text: str) -> str:
    """strconv.Quote."""
    return f'"{_UNUSUAL.sub(lambda it: _quoted(it[0]), text)}"'


def json_text(value: object) -> str:
    """encoding/json: compact, and safe inside of HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.translate(_HTML_ESCAPES)


def parse_int64(text: str) -> int:
    """strconv.ParseInt(text, 10, 64). Raises ValueError with Go's message."""
    return _parsed(text, "ParseInt", _INTEGER, MIN_INT64, MAX_INT64)


def parse_uint64(text: str) -> int:
    """strconv.ParseUint(text, 10, 64). Raises ValueError with Go's message."""
    return _parsed(text, "ParseUint", _UNSIGNED, 0, MAX_UINT64)


def parse_query(text: str) -> Mapping[str, tuple[str, ...]]:
    """net/url.ParseQuery as kube-apiserver uses it: pairs that are malformed are left out.

    What is not UTF-8 becomes U+FFFD, as it does in Go's JSON.
    """
    query: dict[str, list[str]] = {}
    if text.count("&") >= MAX_PARAMETERS:
        return {}
    for pair in text.split("&"):
        if not pair or ";" in pair or _BAD_PERCENT.search(pair):
            continue
        key, _, value = pair.partition("=")
        query.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return {name: tuple(values) for name, values in query.items()}


def _parsed(text: str, function: str, form: re.Pattern[str], lowest: int, highest: int) -> int:
    if not form.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("+-").lstrip("0") or "0"
    # Cut off where it is out of range anyway: int() refuses thousands of digits.
    number = int(digits[:_DIGITS_MAX])
    if text.startswith("-"):
        number = -number
    if not lowest <= number <= highest:
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: value out of range")
    return number


def _quoted(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character == " " or (character.isprintable() and not character.isspace()):
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
