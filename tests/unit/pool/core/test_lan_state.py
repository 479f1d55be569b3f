"""What members tell each other."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool_sidecar.core.lan_state import MAX_STATE, Claim, LanState
from pool_sidecar.core.pool_member import Link, Verdict

GOOD = {"protocol": 1, "node": "n1", "incarnation": "i", "link": "Own", "kubelet": True}

states = st.builds(
    LanState,
    node=st.text(min_size=1, max_size=253),
    incarnation=st.text(min_size=1, max_size=40),
    link=st.sampled_from(Link),
    is_kubelet_ok=st.booleans(),
    leads=st.none() | st.builds(Claim, st.integers(0, 2**31 - 1), st.integers(0, 300).map(float)),
    verdicts=st.dictionaries(
        st.text(min_size=1, max_size=20), st.sampled_from(Verdict), max_size=63
    ),
)


@given(states)
def test_a_state_arrives_as_it_was_sent(state: LanState) -> None:
    assert LanState.decode(state.encode()) == state


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 2},
        {"node": ""},
        {"node": 7},
        {"node": "n" * 254},
        {"incarnation": None},
        {"link": "Borrowed"},
        {"link": None},
        {"kubelet": "yes"},
        {"leads": {"transitions": True, "remainingSeconds": 1}},
        {"leads": {"transitions": -1, "remainingSeconds": 1}},
        {"leads": {"transitions": 1, "remainingSeconds": 1e9}},
        {"leads": {"transitions": 1, "remainingSeconds": 10**400}},
        {"leads": {"transitions": 1, "remainingSeconds": float("nan")}},
        {"leads": {"transitions": 1, "remainingSeconds": float("inf")}},
        {"leads": {"transitions": 10**400, "remainingSeconds": 1}},
        {"leads": {"transitions": 1}},
        {"verdicts": []},
        {"verdicts": {"n2": "Gone"}},
        {"verdicts": {f"n{number}": "Silent" for number in range(64)}},
    ],
)
def test_what_is_wrong_in_one_field_is_no_state(change: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (Enums say it in their own words)
        LanState.decode(json.dumps(GOOD | change).encode())


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"\xff", b"[" * 20_000, b" " * (MAX_STATE + 1), b'{"protocol":1}']
)
def test_what_is_no_state_is_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        LanState.decode(raw)


leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
leaves |= st.sampled_from([10**400, -(10**400), "n2", "Own", "Silent"])
keys = st.sampled_from([*GOOD, "leads", "verdicts", "transitions", "remainingSeconds", "n2"])
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner), max_leaves=9
)


@given(st.dictionaries(keys, anything))
def test_whatever_a_peer_sends_is_a_state_or_a_valueerror(change: dict[str, object]) -> None:
    """Any other error would end this process, and those of all members that hear it."""
    with suppress(ValueError):
        LanState.decode(json.dumps(GOOD | change).encode())


def test_what_is_not_known_yet_is_passed_over() -> None:
    assert LanState.decode(json.dumps(GOOD | {"streams": []}).encode()).node == "n1"


def test_a_calm_state_is_short() -> None:
    state = LanState("worker-17", "5b0ab1b6-5b56-4f9c-8f8b-2d4c7c1d0e55", Link.OWN, True)
    assert len(state.encode()) < 300
