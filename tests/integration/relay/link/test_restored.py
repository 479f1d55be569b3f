"""R6: after upstream was restored from an older backup nobody is told of the history that is lost.

Neither by a stream, nor by what was read by name, nor out of the journal; nobody waits for versions
of it; whoever watches has to list again.
"""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
LONG: Parameters = {"timeoutSeconds": 120}
# More than an API server writes while it starts.
LOST_WRITES = 300
SOON = 30.0
# Seconds from the first contact on until all is as upstream holds it.
AFTER_CONTACT = 10.0
# Of a test with thousands of objects on a busy machine.
LONGEST = 900
# Of thousands of objects at a time.
WRITERS = 8
# Seconds: nobody waits for a version that is of no history.
AT_ONCE = 0.7


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_off",
    [
        pytest.param(False, id="relay-runs"),
        pytest.param(True, id="relay-is-off", marks=pytest.mark.long),
    ],
)
def test_r6_of_history_that_upstream_lost_nothing_is_left(is_off: bool) -> None:
    with ControlPlane() as plane:
        contents = Contents(plane, plane.create_namespace())
        contents.configmap("a", key="kept")
        contents.create("serviceaccounts", "s")
        contents.create("endpoints", "e")
        plane.back_up()
        with Place(Kind.RELAY, plane) as place:
            place.wait_up()
            caller, path = place.caller(), contents.path("configmaps")
            account = contents.path("serviceaccounts", "s")
            idle = contents.path("endpoints")
            contents.configmap("lost")
            contents.label("serviceaccounts", "s", lost="yes")
            contents.label("endpoints", "e", lost="yes")
            for number in range(LOST_WRITES):
                contents.edit("configmaps", "a", {"data": {"key": f"lost-{number}"}})
            version = contents.version()
            for known in (path, idle):
                caller.get(known, {"resourceVersion": version}).expect()
            assert caller.get(f"{path}/a").expect()["data"]["key"].startswith("lost")
            assert "labels" in caller.get(account).expect()["metadata"]
            with caller.watch(path, {**LONG, "resourceVersion": version}) as watching:
                if is_off:
                    place.relay.kill()
                plane.restore()
                if is_off:
                    place.relay.start()
                else:
                    watching.wait_ended(timeout=SOON)
                    assert watching.seen[-1].object["code"] == 410

            def is_told() -> bool:
                reply = caller.get(path, ANY)
                assert "lost" not in reply.names or "Age" in reply.headers, "without a word"
                return reply.names == ["a", "kube-root-ca.crt"] or reply.names == ["a"]

            wait_for(is_told, timeout=SOON, what="what upstream holds", interval=0.05)
            assert "labels" not in caller.get(account).expect()["metadata"]
            [item] = caller.get(idle, ANY).expect()["items"]
            assert "labels" not in item["metadata"], "its stream has been asked for, and learned it"
            again = caller.get(path, ANY)
            assert "Age" not in again.headers
            assert again.seconds < AT_ONCE
            place.cut()
            for _ in range(2):
                assert caller.get(path, ANY).names == again.names
                assert caller.get(f"{path}/a", ANY).expect()["data"]["key"] == "kept"
                assert caller.get(f"{path}/lost", ANY).status == 404
                assert "labels" not in caller.get(account, ANY).expect()["metadata"]
                place.relay.kill()
                place.relay.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    "count",
    [
        10,
        pytest.param(500, marks=pytest.mark.long),
        pytest.param(5000, marks=[pytest.mark.manual, pytest.mark.timeout(LONGEST)]),
    ],
)
@pytest.mark.parametrize(
    "relay_is",
    [
        "connected",
        pytest.param("cut", marks=pytest.mark.long),
        pytest.param("stopped", marks=pytest.mark.long),
    ],
)
def test_r11a_a_history_that_was_restored_and_written_on_is_told_from_one_that_went_on(
    relay_is: str, count: int
) -> None:
    """By its version the new history is beyond the lost one; an observer looks all the time."""
    with ControlPlane() as plane:
        contents = Contents(plane, plane.create_namespace())
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(contents.configmap, [f"kept-{number}" for number in range(count)]))
        plane.back_up()
        with Place(Kind.RELAY, plane) as place:
            place.wait_up()
            caller, path = place.caller(), contents.path("configmaps")
            contents.configmap("ghost")
            contents.delete("configmaps", "kept-0")
            contents.configmap("by-name", key="lost")
            version = contents.version()
            caller.get(path, {"resourceVersion": version}).expect()
            caller.get(f"{path}/by-name").expect()
            with caller.watch(path, {**LONG, "resourceVersion": version}) as watching:
                if relay_is == "stopped":
                    place.relay.kill()
                elif relay_is == "cut":
                    place.cut()
                plane.restore()
                while contents.version() <= version:
                    contents.configmap(f"new-{secrets.token_hex(4)}")
                for number in range(20):
                    contents.configmap(f"later-{number}")
                if relay_is == "stopped":
                    place.relay.start()
                elif relay_is == "cut":
                    place.heal()
                at = time.monotonic()
                upstream = sorted(
                    it["metadata"]["name"] for it in contents.list("configmaps")["items"]
                )

                def is_equal() -> bool:
                    reply = caller.get(path, ANY)
                    assert reply.status == 200, reply.body
                    names = sorted(reply.names)
                    is_lost = "ghost" in names or "kept-0" not in names
                    assert not is_lost or "Age" in reply.headers, "without a word"
                    ghost = caller.get(f"{path}/ghost", ANY)
                    assert ghost.status == 404 or "Age" in ghost.headers
                    kept = caller.get(f"{path}/kept-0", ANY)
                    assert kept.status == 200 or "Age" in kept.headers
                    return names == upstream and "Age" not in reply.headers

                wait_for(is_equal, timeout=SOON, what="what upstream holds", interval=0.05)
                took = time.monotonic() - at
                assert took <= AFTER_CONTACT, f"after {took:.1f} s"
                if relay_is != "stopped":
                    watching.wait_ended(timeout=SOON)
                    assert watching.seen[-1].object["code"] == 410
            assert caller.get(f"{path}/by-name", ANY).status == 404
