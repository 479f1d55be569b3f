"""The version of a part of a stream: only of what upstream listed at it."""

from edge_sidecars.apimachinery.scope import ListScope, ResourceName
from edge_sidecars.apimachinery.store import fingerprint_of
from relay_sidecar.core.min_resource_version import MAX_SCOPES, ListedStates
from tests.unit.relay.streams.samples import item

PODS = ResourceName("", "v1", "pods")
HERE = ListScope(PODS, "default")
A, B = item("a", 5), item("b", 6)
ONE, BOTH = fingerprint_of([A]), fingerprint_of([A, B])


def version(states: ListedStates, part: int, *, whole: int = 1, cursor: int = 90) -> int:
    return states.version(HERE, cursor, whole=whole, part=lambda: part)


def test_what_was_listed_has_the_version_of_the_list() -> None:
    states = ListedStates()
    assert version(states, ONE) == 90
    states.listed(HERE, 100, ONE)

    assert version(states, ONE) == 100
    assert version(states, BOTH, whole=2) == 90
    assert version(states, ONE, whole=3, cursor=110) == 110


def test_a_part_is_compared_again_only_when_the_stream_has_changed() -> None:
    states, compared = ListedStates(), list[int]()
    states.listed(HERE, 100, ONE)

    def part() -> int:
        compared.append(ONE)
        return ONE

    for whole in (1, 1, 2, 2):
        assert states.version(HERE, 90, whole=whole, part=part) == 100
    assert len(compared) == 2


def test_an_earlier_list_that_comes_later_takes_no_place() -> None:
    states = ListedStates()
    states.listed(HERE, 100, ONE)
    states.listed(HERE, 95, BOTH)

    assert version(states, ONE) == 100


def test_what_was_listed_in_a_lost_history_is_forgotten() -> None:
    states = ListedStates()
    states.listed(HERE, 100, ONE)
    states.went_back(PODS.storage, 99)

    assert version(states, ONE) == 90


def test_scopes_are_bounded_and_the_last_are_known() -> None:
    states = ListedStates()
    for number in range(MAX_SCOPES + 1):
        states.listed(ListScope(PODS, f"n{number}"), 100, ONE)

    first, last = ListScope(PODS, "n0"), ListScope(PODS, f"n{MAX_SCOPES}")
    assert states.version(first, 90, whole=1, part=lambda: ONE) == 90
    assert states.version(last, 90, whole=1, part=lambda: ONE) == 100
