"""What a list or watch may ask for. Refusals are those of kube-apiserver 1.36; the integration
tests hold them against a real one."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.apimachinery.go_format import parse_query
from edge_sidecars.apimachinery.request.list_options import ListOptions, VersionMatch, get_version
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.apimachinery.selection.labels import LabelSelector
from edge_sidecars.apimachinery.selection.shards import ShardSelector
from edge_sidecars.apimachinery.status import Refused, Status
from tests.unit.lib.apimachinery.selection import texts

NOT_OLDER = "resourceVersionMatch=NotOlderThan"
SHARD = "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"


def options(query: str) -> ListOptions:
    return ListOptions.parse(parse_query(query))


def refusal(query: str) -> Status:
    with pytest.raises(Refused) as refused:
        options(query)
    return refused.value.status


def test_a_bare_list_asks_for_everything_as_it_is_now() -> None:
    assert options("") == ListOptions(
        is_watch=False,
        labels=LabelSelector(),
        fields=FieldSelector(),
        resource_version=None,
        match=VersionMatch.UNSET,
        limit=0,
        continue_token="",
        timeout_seconds=None,
        allow_bookmarks=False,
        send_initial_events=False,
        shards=ShardSelector(),
    )


def test_all_that_is_asked_for_is_told() -> None:
    asked = options(
        "watch=true&labelSelector=a%3D1&fieldSelector=spec.nodeName%3Dn&resourceVersion=7"
        f"&{NOT_OLDER}&limit=5&timeoutSeconds=300&allowWatchBookmarks=1&sendInitialEvents=true"
        f"&shardSelector={quote(SHARD)}"
    )
    assert asked == ListOptions(
        is_watch=True,
        labels=LabelSelector.parse("a=1"),
        fields=FieldSelector.parse("spec.nodeName=n"),
        resource_version=7,
        match=VersionMatch.NOT_OLDER_THAN,
        limit=5,
        continue_token="",
        timeout_seconds=300,
        allow_bookmarks=True,
        send_initial_events=True,
        shards=ShardSelector.parse(SHARD),
    )


@pytest.mark.parametrize(
    ("value", "is_true"),
    [("true", True), ("1", True), ("", True), ("no", True), ("0", False), ("False", False)],
)
def test_all_but_false_and_0_is_true(value: str, is_true: bool) -> None:
    asked = options(f"watch={value}&allowWatchBookmarks={value}")
    assert (asked.is_watch, asked.allow_bookmarks) == (is_true, is_true)


@pytest.mark.parametrize(
    ("query", "version", "match"),
    [
        ("", None, ""),
        ("resourceVersion=", None, ""),
        ("resourceVersion=0", 0, ""),
        ("resourceVersion=18446744073709551615", 2**64 - 1, ""),
        ("resourceVersion=7&resourceVersionMatch=Exact", 7, "Exact"),
        (f"resourceVersion=0&{NOT_OLDER}", 0, "NotOlderThan"),
        ("resourceVersion=7&resourceVersion=8", 7, ""),
        ("watch=1&resourceVersion=7", 7, ""),
    ],
)
def test_versions_are_read(query: str, version: int | None, match: str) -> None:
    asked = options(query)
    assert (asked.resource_version, asked.match) == (version, match)


@pytest.mark.parametrize("query", ["watch=1", "watch=1&resourceVersion=0", "watch&resourceVersion"])
def test_a_watch_from_any_state_gets_that_state_first(query: str) -> None:
    asked = options(query)
    assert asked.send_initial_events
    assert asked.match is VersionMatch.NOT_OLDER_THAN


@pytest.mark.parametrize(
    "query", ["watch=1&resourceVersion=7", f"watch=1&sendInitialEvents=false&{NOT_OLDER}"]
)
def test_a_watch_that_says_otherwise_does_not(query: str) -> None:
    assert not options(query).send_initial_events


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ("limit=", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("timeoutSeconds=1.5", 'strconv.ParseInt: parsing "1.5": invalid syntax'),
        (
            "limit=9223372036854775808",
            'strconv.ParseInt: parsing "9223372036854775808": value out of range',
        ),
        ("labelSelector=,", "found ',', expected: !, identifier, or 'end of string'"),
        ("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'"),
        (
            "resourceVersion=abc",
            'invalid resource version: resourceVersion: Invalid value: "abc": '
            'strconv.ParseUint: parsing "abc": invalid syntax',
        ),
        # The first of several faults, in the order in which they are looked for.
        (
            "labelSelector=,&timeoutSeconds=x&limit=y",
            'strconv.ParseInt: parsing "x": invalid syntax',
        ),
        (
            "fieldSelector=a&labelSelector=!",
            "unable to parse requirement: found '', expected: ident",
        ),
    ],
)
def test_what_cannot_be_read_is_a_bad_request(query: str, message: str) -> None:
    status = refusal(query)
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message.startswith(message)


@pytest.mark.parametrize("version", ["abc", "-1", "18446744073709551616"])
def test_a_wordy_version_of_a_watch_or_get_is_an_internal_error_without_reason(
    version: str,
) -> None:
    watched = refusal(f"watch=1&resourceVersion={version}")
    with pytest.raises(Refused) as refused:
        get_version({"resourceVersion": [version]})
    assert refused.value.status == watched
    assert (watched.code, watched.reason) == (500, "")
    assert watched.message.startswith(f'resourceVersion: Invalid value: "{version}": strconv.')


def test_a_get_may_name_a_version() -> None:
    assert get_version({}) is None
    assert get_version({"resourceVersion": [""]}) is None
    assert get_version({"resourceVersion": ["0"]}) == 0
    assert get_version({"resourceVersion": ["7", "x"]}) == 7


def test_beside_a_continue_token_the_version_is_upstreams_to_judge() -> None:
    asked = options("continue=abc&resourceVersion=x")
    assert (asked.continue_token, asked.resource_version) == ("abc", None)


FORBIDDEN = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden"


@pytest.mark.parametrize(
    ("query", "complaints"),
    [
        (NOT_OLDER, [f"{FORBIDDEN} unless resourceVersion is provided"]),
        (f"resourceVersion=7&continue=x&{NOT_OLDER}", [f"{FORBIDDEN} when continue is provided"]),
        (
            "resourceVersion=7&resourceVersionMatch=exact",
            [
                'resourceVersionMatch: Unsupported value: "exact": supported values: '
                '"Exact", "NotOlderThan", ""'
            ],
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            [
                'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for '
                'resourceVersion "0"'
            ],
        ),
        (
            "sendInitialEvents=false",
            ["sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"],
        ),
        (
            "watch=1&sendInitialEvents=true",
            [
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
                "resourceVersionMatch to NotOlderThan"
            ],
        ),
        (
            f"watch=1&{NOT_OLDER}",
            [f"{FORBIDDEN} for watch unless sendInitialEvents is provided"],
        ),
        (
            "watch=1&resourceVersionMatch=%3Cé&continue=x",
            [
                f"{FORBIDDEN} for watch unless sendInitialEvents is provided",
                'resourceVersionMatch: Unsupported value: "\\u003cé": supported values: '
                '"NotOlderThan"',
                f"{FORBIDDEN} when continue is provided",
            ],
        ),
    ],
)
def test_what_does_not_go_together_is_invalid(query: str, complaints: list[str]) -> None:
    status = refusal(query)
    assert (status.code, status.reason) == (422, "Invalid")
    assert list(map(str, status.causes)) == complaints
    joined = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
    assert status.message == f'ListOptions.meta.k8s.io "" is invalid: {joined}'


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ("", "invalid shard selector: "),
        ("&resourceVersion=x", "invalid shard selector: "),
        ("&limit=x", "strconv.ParseInt: "),
        ("&resourceVersionMatch=Exact", "ListOptions.meta.k8s.io "),
    ],
)
def test_a_shard_selector_is_looked_at_before_the_version_and_after_the_rest(
    beside: str, message: str
) -> None:
    assert refusal(f"shardSelector=x{beside}").message.startswith(message)


_PARAMETERS = (
    "watch",
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "timeoutSeconds",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "shardSelector",
)
_VALUES = st.sampled_from(("", "0", "1", "true", "Exact", "NotOlderThan", "x")) | texts


@given(query=st.dictionaries(st.sampled_from(_PARAMETERS), st.lists(_VALUES, max_size=2)))
def test_any_query_is_read_or_refused(query: dict[str, list[str]]) -> None:
    try:
        asked = ListOptions.parse(query)
    except Refused:
        return
    if asked.match is not VersionMatch.UNSET and not asked.is_watch:
        assert asked.resource_version is not None
