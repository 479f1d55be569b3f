"""The whole HTTP interface over a Unix socket: what the table says of TCP is true of it too."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.elector.endpoints.test_http import FIELDS, GET_PATHS
from tests.integration.elector.endpoints.test_listener import UnixConnection
from tools.harness.controlplane.clients.answer import Answer, exchange
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for


@dataclass
class Socket:
    pod: ElectorPod
    path: Path

    def ask(self, target: str, method: str = "GET") -> Answer:
        return exchange(UnixConnection(self.path), target, method=method)


@dataclass
class Sockets:
    leader: Socket
    standby: Socket


@pytest.fixture(scope="module")
def sockets(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sockets]:
    """Of a leader and a standby that stay so."""
    folder = tmp_path_factory.mktemp("sockets")
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        fleet.create_empty_lease()

        def add(name: str) -> Socket:
            path = folder / name
            return Socket(fleet.add("--listen", f"unix:{path}", timing=STEADY), path)

        leader = add("leader")
        wait_for(lambda: leader.ask("/readyz").status == 200, timeout=20, what="the lead")
        standby = add("standby")
        identity = leader.pod.identity
        wait_for(
            lambda: standby.ask("/leader").json()["holder"] == identity,
            timeout=20,
            what="the standby knows the leader",
        )
        yield Sockets(leader, standby)
        for each in (leader, standby):
            assert "Traceback" not in each.pod.log_text()


@pytest.mark.parametrize("path", GET_PATHS)
def test_each_path_answers_get_head_and_options_as_the_table_says(
    sockets: Sockets, path: str
) -> None:
    for socket, ready in ((sockets.leader, 200), (sockets.standby, 503)):
        get, head, options = (socket.ask(path, method) for method in ("GET", "HEAD", "OPTIONS"))
        assert get.status == (ready if path == "/readyz" else 200)
        assert get.body
        for other in (head, options):
            assert (other.status, other.body) == (get.status, b"")
            assert other.headers["Content-Type"] == get.headers["Content-Type"]
        assert socket.ask(path, "PUT").status == 405


def test_documents_conditions_and_refusals(sockets: Sockets) -> None:
    leader, standby = sockets.leader, sockets.standby
    document = leader.ask("/leader").json()
    assert document.keys() == FIELDS
    assert document["isLeader"] is True
    assert standby.ask("/leader").json()["isLeader"] is False
    token = document["fencingToken"]
    assert leader.ask(f"/readyz?min_remaining=1s&wait=10s&min_age=1s&token={token}").status == 200
    assert leader.ask("/readyz?min_remaining=1h").status == 503
    assert standby.ask("/readyz?wait=200ms").status == 503
    assert leader.ask("/readyz?misspelt=1").status == 400
    assert leader.ask("/nothing").status == 404
    assert standby.ask("/resign", "POST").status == 409


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_a_watch_streams_documents(sockets: Sockets, accept: str) -> None:
    for socket, leads in ((sockets.leader, True), (sockets.standby, False)):
        with closing(UnixConnection(socket.path)) as connection:
            connection.request("GET", "/leader?watch=true", headers={"Accept": accept})
            response = connection.getresponse()
            lines = [line for line in (response.readline() for _ in range(4)) if line.strip()]
            for line in lines:
                assert json.loads(line.removeprefix(b"data: "))["isLeader"] is leads
