"""R7 with real processes: what callers may while the API server is out of reach, and for how long.

The wall clock is one that somebody sets while the relay is down.
"""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.integration.relay.conftest import check_logs
from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.access.service_account import ServiceAccountDirectory
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller
from tools.harness.processes.faketime import faketime_library
from tools.harness.relay_objects import Contents


def rule(*verbs: str) -> list[dict[str, list[str]]]:
    return [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]


@pytest.fixture
def place(control_plane: ControlPlane) -> Iterator[Place]:
    with Place(Kind.FOR_CALLERS, control_plane) as it:
        yield it
        check_logs(it)


@pytest.mark.parametrize("offset", ["+30d", "-30d"])
def test_r7_a_clock_that_is_set_while_cut_off_locks_nobody_out_and_lets_nobody_in(
    place: Place, control_plane: ControlPlane, contents: Contents, offset: str
) -> None:
    contents.configmap("a")
    space, path = contents.namespace, contents.path("configmaps")

    def caller(account: ServiceAccountDirectory) -> Caller:
        token = (account.path / "token").read_text()
        return Caller(place.url, context=place.tls(), headers={"Authorization": f"Bearer {token}"})

    accounts = {
        "reader": rule("get", "list", "watch"),
        "lister": rule("list", "watch"),
        "stranger": [],
    }
    reader, lister, stranger = (
        caller(control_plane.service_account_dir(space, name, rules))
        for name, rules in accounts.items()
    )
    for each in (reader, lister):
        assert each.get(path, {"resourceVersion": contents.version()}).names == ["a"]

    def is_asked(account: str) -> bool:
        """Whether it may list, and for now whether it may get."""
        user = f"system:serviceaccount:{space}:{account}"
        reviews = "selfsubjectaccessreviews"
        return control_plane.count_requests(resource=reviews, user=user) == 2

    for name in ("reader", "lister"):
        wait_for(partial(is_asked, name), timeout=10, what=f"questions about {name}")
    place.cut()

    def check() -> None:
        for each in (reader, lister):
            assert each.get(path, {"resourceVersion": "0"}).names == ["a"]
        # Nobody asked for it by its name before.
        assert reader.get(f"{path}/a").status == 200
        assert lister.get(f"{path}/a").status == 503
        assert stranger.get(path).status == 503

    check()
    place.relay.kill()
    place.relay.prefix = [
        "env",
        f"LD_PRELOAD={faketime_library()}",
        f"FAKETIME={offset}",
        "FAKETIME_DONT_FAKE_MONOTONIC=1",
    ]
    place.relay.start()
    place.relay.wait_link(up=False)
    check()
