"""Which representation a client gets, by its Accept header, and whether it may be packed.

Owns: the choice among those that the relay can give (JSON whole, and metadata only) or knows of
(Table); whatever else is wanted, upstream gives.
Sources: github.com/emicklei/go-restful/v3, route.go (what is looked at at all);
github.com/munnerz/goautoneg (order of clauses); k8s.io/apiserver v0.36,
pkg/endpoints/handlers/negotiation/negotiate.go and handlers/rest.go (parameters).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cmp_to_key
from typing import Final

from edge_sidecars.apimachinery.lru import lru


class Form(Enum):
    """What is shown of an object."""

    WHOLE = "whole"
    # PartialObjectMetadata or a list of it: they are the same here.
    METADATA = "metadata"
    TABLE = "table"
    # Protobuf, YAML, CBOR or nothing that kube-apiserver knows, and no JSON.
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Representation:
    """`api_version` is that of METADATA and TABLE: meta.k8s.io/v1 or v1beta1. `allows_whole`: the
    client reads whole objects in JSON as well, so they may take the place of a Table. `of_list`: of
    METADATA, whether that of a list is asked for."""

    form: Form
    api_version: str = ""
    allows_whole: bool = False
    of_list: bool = False

    def fits(self, verb: str) -> bool:
        """Whether the answer can be shown like this at all: kube-apiserver shows no list as one
        object's metadata, and no object as a list's (handlers/response.go). A watch takes both."""
        if self.form is not Form.METADATA or verb == "watch":
            return True
        return self.of_list is (verb == "list")


WHOLE = Representation(Form.WHOLE, allows_whole=True)
OTHER = Representation(Form.OTHER)

# Headers are few; a client that makes up new ones all the time must not grow the process.
_CACHE_SIZE = 256
# Characters; a browser sends a hundred. Of a longer one upstream makes what it likes.
LONGEST_ACCEPT: Final = 8192
# What the routes of built-in resources say they produce: no wildcard but */* leads to them.
_ROUTED = ("*/*", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
# Clauses: beyond it Go takes another algorithm, and insertion takes the square of the time.
_BY_INSERTION = 12
_META = "meta.k8s.io"
_META_VERSIONS = ("v1", "v1beta1")
_METADATA_KINDS = ("PartialObjectMetadata", "PartialObjectMetadataList")


@lru(_CACHE_SIZE)
def representation(accept: str) -> Representation:
    """Of the clauses that can be served in JSON, the one that the client likes best.

    A better liked one in protobuf, YAML or CBOR is passed over: JSON is as legal an answer.
    """
    if not accept:
        return WHOLE
    if len(accept) > LONGEST_ACCEPT:
        return OTHER
    if not any(part.partition(";")[0].strip(" ") in _ROUTED for part in accept.split(",")):
        return OTHER
    served = [found for clause in clauses(accept) if (found := _served(clause)) is not None]
    if not served:
        return OTHER
    return replace(served[0], allows_whole=WHOLE in served)


@dataclass(frozen=True, slots=True)
class Clause:
    """One media type that a client takes, or a range of them."""

    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]


def _served(clause: Clause) -> Representation | None:
    if (clause.type, clause.subtype) not in (
        ("application", "json"),
        ("application", "*"),
        ("*", "*"),
    ):
        return None
    parameters = clause.parameters
    if parameters.get("stream", "watch") not in ("", "watch") or parameters.get("sv", "v1") not in (
        "",
        "v1",
    ):
        return None
    if not {"as", "g", "v"} & parameters.keys():
        return WHOLE
    kind, version = parameters.get("as", ""), parameters.get("v", "")
    if parameters.get("g") != _META or version not in _META_VERSIONS:
        return None
    if kind in _METADATA_KINDS:
        return Representation(Form.METADATA, f"{_META}/{version}", of_list=kind.endswith("List"))
    return Representation(Form.TABLE, f"{_META}/{version}") if kind == "Table" else None


def clauses(accept: str) -> list[Clause]:
    """Best first. goautoneg's order is no order in the mathematical sense, so the algorithm
    counts: Go sorts so few by insertion (sort/zsortinterface.go). Of more clauses than any client
    sends the order may be another one than Go's."""
    found = [clause for part in accept.split(",") if (clause := _clause(part)) is not None]
    if len(found) > _BY_INSERTION:
        return sorted(found, key=cmp_to_key(_compared))
    for start in range(1, len(found)):
        at = start
        while at and _is_before(found[at], found[at - 1]):
            found[at - 1 : at + 1] = found[at], found[at - 1]
            at -= 1
    return found


def _clause(part: str) -> Clause | None:
    media, *rest = part.split(";")
    main, _, subtype = media.partition("/")
    main, subtype = main.strip(" "), subtype.strip(" ")
    if not subtype and main == "*":
        subtype = "*"
    if not subtype or "/" in subtype:
        return None
    parameters, quality = {}, 1.0
    for parameter in rest:
        name, _, value = parameter.partition("=")
        if not value or "=" in value:
            continue
        if name.strip(" ") == "q":
            quality = _quality(value)
        else:
            parameters[name.strip(" ")] = value.strip(" ")
    return Clause(main, subtype, quality, parameters)


def _quality(text: str) -> float:
    """strconv.ParseFloat; what it cannot read counts as 0."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _is_before(one: Clause, other: Clause) -> bool:
    return (
        one.quality > other.quality
        or (one.type != "*" and other.type == "*")
        or (one.subtype != "*" and other.subtype == "*")
    )


def _compared(one: Clause, other: Clause) -> int:
    return -1 if _is_before(one, other) else int(_is_before(other, one))


def accept_header(wanted: Representation, *, is_list: bool) -> str | None:
    """The Accept that asks for the same in JSON; None where that is not possible."""
    version = wanted.api_version.rpartition("/")[2]
    match wanted.form:
        case Form.WHOLE:
            return "application/json"
        case Form.METADATA:
            kind = "PartialObjectMetadataList" if is_list else "PartialObjectMetadata"
        case Form.TABLE:
            kind = "Table"
        case Form.OTHER:
            return None
    return f"application/json;as={kind};v={version};g=meta.k8s.io,application/json"


def takes_gzip(accept_encoding: str) -> bool:
    """Whether a client takes a packed body; Accept-Encoding, of which nothing else is looked at."""
    for part in accept_encoding.split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def is_gzip(content_encoding: str) -> bool:
    """Whether a body with this Content-Encoding is gzip."""
    return content_encoding.lower() == "gzip"
