"""A relay before a relay: the lower one tells "cut off itself" from "gone", and asks on."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller, Parameters
from tools.harness.relay_objects import Contents

ANY: Parameters = {"resourceVersion": "0"}
LONG: Parameters = {"timeoutSeconds": 120}
# Seconds for both relays to judge the link, one after the other.
JUDGED = 20.0


@dataclass
class Chain:
    place: Place
    upper: RelayProcess
    lower: RelayProcess

    def caller(self, relay: RelayProcess) -> Caller:
        return Caller(relay.url, context=self.place.tls())

    def wait_state(self, state: str) -> None:
        wait_for(lambda: self.lower.status()["link"]["state"] == state, timeout=JUDGED, what=state)


@pytest.fixture(params=["http", "tls"])
def chain(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Chain]:
    with ExitStack() as stack:
        is_tls = request.param == "tls"
        place = Place(Kind.BEHIND_RELAY if is_tls else Kind.RELAY, control_plane)
        stack.enter_context(place)
        if is_tls:
            lower, upper = place.relays
        else:
            upper = place.relay
            lower = stack.enter_context(RelayProcess([f"--server={upper.url}"]))
        lower.wait_link(up=True)
        yield Chain(place, upper, lower)
        for relay in (lower, upper):
            assert "Traceback" not in relay.log_text(all_lives=True)


def test_while_the_cloud_is_gone_what_only_the_upper_relay_keeps_is_had_through_the_lower(
    chain: Chain, contents: Contents
) -> None:
    place = chain.place
    upper, lower = chain.caller(chain.upper), chain.caller(chain.lower)
    contents.configmap("a")
    path = contents.path("configmaps")
    assert upper.get(path, {"resourceVersion": contents.version()}).names == ["a"]
    # And what both keep.
    secrets = contents.path("secrets")
    with lower.watch(secrets, {**LONG, "resourceVersion": lower.get(secrets).version}) as watching:
        place.link.black_hole()
        chain.wait_state("relayed")
        assert chain.lower.readyz() == HTTPStatus.OK
        assert chain.lower.readyz("?upstream=true") == HTTPStatus.SERVICE_UNAVAILABLE
        assert 'relay_link_state{state="relayed"} 1' in chain.lower.metrics()
        for query in (ANY, {}):
            listed = lower.get(path, query)
            assert (listed.names, "Age" in listed.headers) == (["a"], True), listed
        assert lower.get(f"{path}/a").json()["metadata"]["name"] == "a"
        assert lower.get(f"{path}/b").status == HTTPStatus.NOT_FOUND
        assert lower.get(contents.path("pods")).status == HTTPStatus.SERVICE_UNAVAILABLE
        refused = lower.post(path, {"metadata": {"name": "b"}})
        assert refused.status == HTTPStatus.SERVICE_UNAVAILABLE
        # Ages add up: what the lower one has learned is not younger for that.
        told = int(lower.get(path, {}).headers["Age"])
        chain.upper.kill()
        chain.wait_state("down")
        kept = lower.get(path, ANY)
        assert kept.names == ["a"]
        assert int(kept.headers["Age"]) >= told > 0
        chain.upper.start()
        place.heal()
        chain.wait_state("up")
        contents.create("secrets", "s")
        watching.wait_told(("ADDED", "s"))
    wait_for(lambda: "Age" not in lower.get(path, {}).headers, timeout=JUDGED, what="no age")
