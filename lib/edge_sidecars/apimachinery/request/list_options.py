"""The options of a list or watch, validated as kube-apiserver validates them.

Owns: what each parameter means and which Status refuses it. Guarantees: whatever is returned,
kube-apiserver would not refuse either, but for fields that the resource lacks (resources) and what
only its storage can check (a continue token).
Sources, all v0.36: k8s.io/apimachinery pkg/runtime/conversion.go (values),
pkg/apis/meta/internalversion/{defaults.go,validation/validation.go}; k8s.io/apiserver
pkg/endpoints/handlers/get.go (order) and pkg/storage/api_object_versioner.go (versions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

from edge_sidecars.apimachinery.go_format import json_text, parse_int64, parse_uint64, quote
from edge_sidecars.apimachinery.selection.fields import NAME, FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.selector import BadSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused, Status, StatusCause, bad_request, invalid

# By parameter; where one is given more than once, the first counts.
Query = Mapping[str, Sequence[str]]
S = TypeVar("S", LabelSelector, FieldSelector, ShardSelector)

_MATCH = "resourceVersionMatch"
SHARD_SELECTOR = "shardSelector"
SELECTORS: Final = ("labelSelector", "fieldSelector")
# Characters; what is made of a megabyte, twenty of them, takes a second, and would stay for as long
# as a watch is open.
LONGEST_SELECTORS: Final = 8192


class VersionMatch(StrEnum):
    """ResourceVersionMatch; UNSET is the behaviour from before there was one."""

    UNSET = ""
    EXACT = "Exact"
    NOT_OLDER_THAN = "NotOlderThan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """`resource_version` is None where none is asked for, 0 for any, and None beside a continue
    token, which has its own. `timeout_seconds` None or 0: as the server likes, below 0: over at
    once. `limit` 0 or less: none. `send_initial_events` is also set for a watch without a version
    or from 0, which asks for them in its own way."""

    is_watch: bool
    labels: LabelSelector
    fields: FieldSelector
    resource_version: int | None
    match: VersionMatch
    limit: int
    continue_token: str
    timeout_seconds: int | None
    allow_bookmarks: bool
    send_initial_events: bool
    shards: ShardSelector

    @property
    def is_exact(self) -> bool:
        """A list as of just its version. A limit beside a version means that too, where no match is
        given: from before there was one (kubernetes.io, API concepts: resourceVersion in lists)."""
        if not self.resource_version:
            return False
        is_old_form = self.match is VersionMatch.UNSET and self.limit > 0
        return self.match is VersionMatch.EXACT or is_old_form

    @staticmethod
    def parse(query: Query) -> ListOptions:
        """Raises Refused."""
        options = _decoded(query)
        version, match, initial = (
            _first(query, name) for name in ("resourceVersion", _MATCH, "sendInitialEvents")
        )
        is_asked = None if initial is None else _is_true(initial)
        if options.is_watch and is_asked is None and not match and version in (None, "", "0"):
            match, is_asked = VersionMatch.NOT_OLDER_THAN, True
        faults = _watch_faults if options.is_watch else _list_faults
        asked = _AskedVersion(version or "", match or "", options.continue_token, is_asked)
        if causes := list(faults(asked)):
            raise Refused(invalid("ListOptions", causes, group="meta.k8s.io"))
        return replace(
            options,
            # Before the versions, as kube-apiserver's storage; whose refusal is a 500.
            shards=shard_selector(query),
            resource_version=_version_asked(options, asked.version),
            match=VersionMatch(asked.match),
            send_initial_events=bool(is_asked),
        )


def asks_for_watch(query: Query) -> bool:
    """Also of a query that is refused for something else."""
    return _flag(query, "watch")


def has_long_selectors(query: Query, *, limit: int = LONGEST_SELECTORS) -> bool:
    """Before anything is made of them. `limit`: characters."""
    return sum(len(it) for key in SELECTORS for it in query.get(key, ())) > limit


def pinned_name(query: Query) -> str:
    """The name that `metadata.name=` asks for, which kube-apiserver authorizes by; "" where there
    is none, or where it cannot be part of a path, or where the query cannot be read, or beside long
    selectors, which only upstream reads."""
    if has_long_selectors(query):
        return ""
    try:
        name = _decoded(query).fields.exact(NAME) or ""
    except Refused:
        return ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def shard_selector(query: Query) -> ShardSelector:
    """Raises Refused."""
    return _selector(ShardSelector.parse, _first(query, SHARD_SELECTOR))


def _version_asked(options: ListOptions, version: str) -> int | None:
    if options.is_watch:
        return _version(version, is_list=False)
    # The storage looks at the token first, and refuses a version beside a valid one.
    return None if options.continue_token else _version(version, is_list=True)


def get_version(query: Query) -> int | None:
    """The resourceVersion of a GET: None where none is asked for, 0 for any. Raises Refused."""
    return _version(_first(query, "resourceVersion") or "", is_list=False)


class _AskedVersion(NamedTuple):
    """What the validation looks at; `initial` is None where sendInitialEvents is not given."""

    version: str
    match: str
    continue_token: str
    initial: bool | None


def _decoded(query: Query) -> ListOptions:
    """What each parameter alone means. Raises Refused."""
    return ListOptions(
        is_watch=asks_for_watch(query),
        timeout_seconds=_integer(_first(query, "timeoutSeconds")),
        limit=_integer(_first(query, "limit")) or 0,
        labels=_selector(LabelSelector.parse, _first(query, "labelSelector")),
        fields=_selector(FieldSelector.parse, _first(query, "fieldSelector")),
        resource_version=None,
        match=VersionMatch.UNSET,
        continue_token=_first(query, "continue") or "",
        allow_bookmarks=_flag(query, "allowWatchBookmarks"),
        send_initial_events=False,
        shards=ShardSelector(),
    )


def _list_faults(asked: _AskedVersion) -> Iterator[StatusCause]:
    if asked.match:
        if not asked.version:
            yield _forbidden(f"{_MATCH} is forbidden unless resourceVersion is provided")
        if asked.continue_token:
            yield _forbidden(f"{_MATCH} is forbidden when continue is provided")
        if asked.match not in (VersionMatch.EXACT, VersionMatch.NOT_OLDER_THAN):
            supported = (VersionMatch.EXACT, VersionMatch.NOT_OLDER_THAN, VersionMatch.UNSET)
            yield _not_supported(asked.match, supported)
        if asked.match == VersionMatch.EXACT and asked.version == "0":
            yield _forbidden(f'{_MATCH} "exact" is forbidden for resourceVersion "0"')
    if asked.initial is not None:
        yield _forbidden("sendInitialEvents is forbidden for list", field="sendInitialEvents")


def _watch_faults(asked: _AskedVersion) -> Iterator[StatusCause]:
    wanted = VersionMatch.NOT_OLDER_THAN
    if asked.initial is not None and asked.match != wanted:
        yield _forbidden(f"sendInitialEvents requires setting {_MATCH} to {wanted}")
    if asked.match:
        if asked.initial is None:
            yield _forbidden(
                f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"
            )
        if asked.match != wanted:
            yield _not_supported(asked.match, (wanted,))
        if asked.continue_token:
            yield _forbidden(f"{_MATCH} is forbidden when continue is provided")


def _forbidden(why: str, *, field: str = _MATCH) -> StatusCause:
    return StatusCause("FieldValueForbidden", f"Forbidden: {why}", field)


def _not_supported(match: str, supported: Sequence[str]) -> StatusCause:
    values = ", ".join(map(quote, supported))
    # In JSON: to field.NotSupported a ResourceVersionMatch is no string.
    message = f"Unsupported value: {json_text(match)}: supported values: {values}"
    return StatusCause("FieldValueNotSupported", message, _MATCH)


def _first(query: Query, name: str) -> str | None:
    return next(iter(query.get(name, ())), None)


def _flag(query: Query, name: str) -> bool:
    text = _first(query, name)
    return text is not None and _is_true(text)


def _is_true(text: str) -> bool:
    """Anything but "0" and "false" is true, also the empty text of `?watch`."""
    return text != "0" and text.lower() != "false"


def _integer(text: str | None) -> int | None:
    try:
        return None if text is None else parse_int64(text)
    except ValueError as error:
        raise Refused(bad_request(str(error))) from error


def _selector(parse: Callable[[str], S], text: str | None) -> S:
    try:
        return parse(text or "")
    except BadSelector as error:
        raise Refused(bad_request(str(error))) from error


def _version(text: str, *, is_list: bool) -> int | None:
    if not text:
        return None
    try:
        return parse_uint64(text)
    except ValueError as error:
        said = f"resourceVersion: Invalid value: {quote(text)}: {error}"
        if is_list:
            raise Refused(bad_request(f"invalid resource version: {said}")) from error
        # A watch and a GET hand on the storage's error as it is: a 500 without a reason.
        raise Refused(Status(HTTPStatus.INTERNAL_SERVER_ERROR, "", said)) from error
