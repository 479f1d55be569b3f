"""R6: after upstream was restored from an older backup nobody is told of the history that is lost.

Neither by a stream, nor by what was read by name, nor out of the journal; nobody waits for versions
of it; whoever watches has to list again.
"""

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
# Seconds: nobody waits for a version that is of no history.
AT_ONCE = 0.7


@pytest.mark.slow
@pytest.mark.parametrize("is_off", [False, True], ids=["relay-runs", "relay-is-off"])
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
