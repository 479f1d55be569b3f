"""The promises that a controller, or kubelet, lives by, in the conditions that users meet: each
test runs in each cell of `tests/conditions.py`."""

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.conditions import CELLS, Condition, Life, Situation
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters

ANY: Parameters = {"resourceVersion": "0"}
NEWEST: Parameters = {}
LONG: Parameters = {"timeoutSeconds": 240}

pytestmark = pytest.mark.slow


# Each way, caller and life is in one of these; the others pair them otherwise, over slower links.
SOONEST = 5


@pytest.fixture(
    scope="module",
    params=[
        *CELLS[:SOONEST],
        *(pytest.param(it, marks=pytest.mark.long) for it in CELLS[SOONEST:]),
    ],
    ids=str,
)
def it(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Situation]:
    """One relay in each cell, for all tests: who cuts its link heals it."""
    condition: Condition = request.param
    folder = tmp_path_factory.mktemp(str(condition))
    if condition.life is Life.RESTORED:
        # What the others have made must not be lost.
        with ControlPlane() as own, Situation(own, folder, condition) as it:
            yield it
        return
    with Situation(control_plane, folder, condition) as it:
        yield it


def test_what_there_is_is_listed_and_got(it: Situation) -> None:
    it.contents.configmap("listed")
    path, caller = it.contents.path("configmaps"), it.caller()
    for query in (NEWEST, {"resourceVersion": it.contents.version()}, ANY):

        def is_listed(query: Parameters = query) -> bool:
            """Over two seconds upstream may not answer within --read-timeout: then an old answer
            says so, for as long as the stream catches up."""
            reply = caller.get(path, query)
            reply.expect()
            is_there = {it.known, "listed"} <= set(reply.names)
            assert is_there or (query == NEWEST and "Age" in reply.headers), query
            return is_there

        wait_for(is_listed, timeout=it.patience, what=f"the new one by {query}")
        assert caller.get(f"{path}/listed", query).expect()["metadata"]["name"] == "listed"
    assert caller.get(f"{path}/nope").status == 404


def test_each_change_is_told_once_and_in_order(it: Situation) -> None:
    path = it.contents.path("configmaps")
    version: Parameters = {**LONG, "resourceVersion": it.contents.version()}
    with it.caller().watch(path, version) as watching:
        it.contents.configmap("told")
        it.contents.label("configmaps", "told", x="1")
        it.contents.delete("configmaps", "told")
        watching.wait_told(
            ("ADDED", "told"), ("MODIFIED", "told"), ("DELETED", "told"), timeout=it.patience
        )
        assert watching.is_open


def test_a_write_is_read_back_at_once(it: Situation) -> None:
    path, caller = it.contents.path("configmaps"), it.caller()
    caller.get(path, ANY)
    made = caller.post(path, {"metadata": {"name": "mine"}}).expect(HTTPStatus.CREATED)
    for query in (NEWEST, ANY):
        found = caller.get(f"{path}/mine", query).expect()
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert "mine" in caller.get(path, query).names
    assert caller.delete(f"{path}/mine").status == 200
    for query in (NEWEST, ANY):
        assert caller.get(f"{path}/mine", query).status == 404
        assert "mine" not in caller.get(path, query).names


def test_what_is_known_is_answered_over_a_cut_and_goes_on_after_it(it: Situation) -> None:
    path, caller = it.contents.path("configmaps"), it.caller()
    version: Parameters = {**LONG, "resourceVersion": it.contents.version()}
    caller.get(path, {"resourceVersion": it.contents.version()}).expect()
    with caller.watch(path, version) as watching:
        it.cut()
        for query in (NEWEST, ANY):
            reply = caller.get(path, query)
            reply.expect()
            assert it.known in reply.names
            assert "Age" in reply.headers
            assert caller.get(f"{path}/{it.known}", query).status == 200
        # No node needs these: a relay of a node learns what its node needs by itself.
        assert caller.get(it.contents.path("podtemplates"), NEWEST).status == 503
        assert caller.post(path, {"metadata": {"name": "refused"}}).status == 503
        it.contents.configmap("meanwhile")
        assert watching.is_open
        it.heal()
        watching.wait_told(("ADDED", "meanwhile"), timeout=it.patience)
        assert watching.is_open
    it.contents.configmap("after")
    reply = caller.get(path, {"resourceVersion": it.contents.version()})
    assert {"meanwhile", "after"} <= set(reply.names)
    assert "refused" not in reply.names
    for name in ("meanwhile", "after"):
        it.contents.delete("configmaps", name)
