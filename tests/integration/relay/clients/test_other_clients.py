"""R2, R4 and R5 with the clients of other languages: fabric8's informer in Java, which watches over
a WebSocket, and @kubernetes/client-node's in JavaScript."""

import os
from pathlib import Path

import pytest

from tests.integration.relay.place import Kind, Place
from tests.integration.relay.upstream import requests, verbs
from tools.harness.controlplane.access.kubeconfig import write_kubeconfig
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.other_informers import CLIENT_NODE, FABRIC8, Client, OtherInformer
from tools.harness.pods.observers.observer import wait_for
from tools.harness.relay_objects import Contents

pytestmark = pytest.mark.slow

clients = pytest.mark.parametrize("client", [FABRIC8, CLIENT_NODE], ids=lambda it: it.name)


def informer(client: Client, place: Place, namespace: str, folder: Path) -> OtherInformer:
    if client.missing:
        packages = " ".join(client.missing)
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"{packages} is missing: make test-deps installs it")
        pytest.skip(f"{packages} is missing: apt-get install {packages}")
    authority = place.authority
    token = place.caller().headers.get("Authorization", "Bearer none").removeprefix("Bearer ")
    kubeconfig = write_kubeconfig(
        folder / "client.kubeconfig",
        server=place.url,
        ca=None if authority is None else authority.read_bytes(),
        credentials=token,
        namespace=namespace,
    )
    return OtherInformer(client, kubeconfig, namespace)


@clients
@pytest.mark.parametrize(
    "kind",
    [Kind.RELAY, pytest.param(Kind.FOR_CALLERS, marks=pytest.mark.long)],
    ids=lambda kind: kind.value,
)
@pytest.mark.timeout(400)
def test_r4_an_informer_goes_on_through_a_cut_and_a_restart_while_cut(
    control_plane: ControlPlane, contents: Contents, tmp_path: Path, client: Client, kind: Kind
) -> None:
    space = contents.namespace
    contents.configmap("before")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with informer(client, place, space, tmp_path) as it:
            it.wait_said("ADDED before")
            wait_for(lambda: place.relay.status()["watchers"] == 1, timeout=60, what="its watch")
            contents.configmap("told")
            contents.label("configmaps", "told", x="1")
            it.wait_said("ADDED told", "MODIFIED told")
            watches = [each for each in requests(control_plane, space) if each.verb == "watch"]
            assert [each.user_agent.partition("/")[0] for each in watches] == ["relay-sidecar"]

            place.cut(black_hole=True)
            assert it.ask("list") == "LISTED before,told"
            assert it.ask("get told") == "GOT told"
            heard = list(it.changes)
            contents.configmap("meanwhile")
            contents.delete("configmaps", "told")
            place.relay.kill()
            place.relay.start()
            assert it.ask("list") == "LISTED before,told"
            assert it.ask("get told") == "GOT told"
            wait_for(lambda: place.relay.status()["watchers"] == 1, timeout=90, what="it again")
            assert it.changes == heard, "nothing came, and nothing went"

            place.heal()
            it.wait_said("ADDED meanwhile", "DELETED told")
            assert it.ask("list") == "LISTED before,meanwhile"
            assert sorted(set(it.changes)) == sorted(it.changes), "each was told once"
            own = [each for each in requests(control_plane, space) if each.verb == "watch"]
            agents = {each.user_agent.partition("/")[0] for each in own}
            assert agents == {"relay-sidecar"}, verbs(own)
            if client is FABRIC8:
                watched = [line for line in it.lines if line.startswith("WATCHED")]
                assert set(watched) == {"WATCHED 101"}
