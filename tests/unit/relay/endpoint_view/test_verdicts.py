"""What a line of /sources says of the nodes of the pool, and for how long."""

import json
from typing import Any

import pytest

from relay_sidecar.core.verdicts import Verdicts
from relay_sidecar.pool.sources import PoolSources, SourcesLine

NOW = 100.0
JUDGED: dict[str, Any] = {
    "node": "n1",
    "peers": [{"node": "n2"}, {"node": "n3"}, {"node": "n4"}],
    "verdicts": {"n3": "Degraded", "n5": "Silent", "n6": "NeverHeard"},
}


def line(seconds: float, **more: Any) -> SourcesLine:
    told = {"detour": True, "via": "n3", "validSeconds": seconds}
    return SourcesLine.parse(json.dumps(told | more).encode())


def test_endpoint_view_who_is_heard_and_not_judged_is_alive_and_so_is_the_node_itself() -> None:
    found = Verdicts.read(JUDGED)
    assert found == Verdicts(frozenset({"n1", "n2", "n4"}), frozenset({"n5"}))
    assert line(6, **JUDGED).verdicts == found


def test_endpoint_view_verdicts_end_with_their_line() -> None:
    sources = PoolSources()
    assert sources.verdicts(NOW) is None
    sources.heard(line(2, **JUDGED), NOW)
    assert sources.verdicts(NOW + 1.9) is not None
    assert sources.verdicts(NOW + 2) is None
    # An older pool-sidecar does not name the node.
    sources.heard(line(6), NOW + 2)
    assert (sources.verdicts(NOW + 2), sources.via(NOW + 2)) == (None, "n3")


def test_endpoint_view_the_node_itself_is_never_silent() -> None:
    found = Verdicts.read(JUDGED | {"verdicts": {"n1": "Silent"}})
    assert found == Verdicts(frozenset({"n1", "n2", "n3", "n4"}), frozenset())


@pytest.mark.parametrize(
    "changed",
    [
        {"node": ""},
        {"node": 7},
        {"peers": None},
        {"peers": {"node": "n2"}},
        {"verdicts": None},
        {"verdicts": ["n5"]},
    ],
    ids=str,
)
def test_endpoint_view_verdicts_that_do_not_fit_are_none(changed: dict[str, Any]) -> None:
    assert Verdicts.read(JUDGED | changed) is None


def test_endpoint_view_peers_that_are_none_are_left_out() -> None:
    peers = [7, {}, {"node": ["n2"]}, {"node": "n4"}]
    found = Verdicts.read(JUDGED | {"peers": peers, "verdicts": {}})
    assert found == Verdicts(frozenset({"n1", "n4"}), frozenset())
