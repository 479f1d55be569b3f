"""Rule 9.2: one item or event that cannot be read is stepped over and counted. What is beside it is
kept; of what is not here, only upstream says that it is not there."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.pods.wire.raw_server import Connection, RawServer

PATH = "/api/v1/namespaces/n/configmaps"
# Seconds.
SOON = 15.0

ITEMS = {
    "nothing": b"{}",
    "null": b"null",
    "no metadata": b'{"kind":"ConfigMap","apiVersion":"v1"}',
    "no name": b'{"metadata":{"resourceVersion":"5"}}',
    "a version that is none": b'{"metadata":{"name":"x","namespace":"n","resourceVersion":"v5"}}',
    "a kind that is none": b'{"kind":null,"metadata":{"name":"x","resourceVersion":"5"}}',
    "no text": b'{"metadata":{"name":"x","resourceVersion":"5"},"data":{"a":"\xff"}}',
}
EVENTS = {
    "nothing": b'{"type":"ADDED","object":{}}',
    "no object": b'{"type":"ADDED"}',
    "no type": b'{"object":{"metadata":{"name":"x","resourceVersion":"12"}}}',
    "a type that is none": b'{"type":"TOLD","object":{}}',
    "no JSON": b"\x00garbage",
    "no kind": b'{"type":"MODIFIED","object":{"metadata":{"name":"x","resourceVersion":"12"}}}',
    "a bookmark without a version": b'{"type":"BOOKMARK","object":{"kind":"ConfigMap"}}',
}


def configmap(name: str, version: int) -> bytes:
    meta = {"name": name, "namespace": "n", "resourceVersion": str(version), "uid": name}
    return json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}).encode()


def event(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


class Upstream:
    """One collection; a watch that is opened stays, and brings what `send` is given."""

    def __init__(self, version: int, *items: bytes) -> None:
        self.version, self.items = version, items
        self.lists = self.watches = 0
        self._lines: list[bytes] = []
        self._news = threading.Condition()
        self._is_over = False

    def send(self, *lines: bytes) -> None:
        with self._news:
            self._lines += lines
            self._news.notify_all()

    def end(self) -> None:
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def body(self) -> bytes:
        head = b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},'
        return (head + b'"items":[%s]}') % (self.version, b",".join(self.items))

    def serve(self, connection: Connection) -> None:
        with suppress(ConnectionError):
            while request := connection.request():
                target = request.split(b" ", 2)[1].decode()
                if "watch=true" in target:
                    self._watch(connection)
                elif target.startswith(f"{PATH}/"):
                    self._get(connection, target.removeprefix(f"{PATH}/").partition("?")[0])
                elif target.startswith(PATH):
                    self.lists += 1
                    connection.answer(self.body(), headers="Content-Type: application/json\r\n")
                else:
                    connection.answer(b"{}")

    def _get(self, connection: Connection, name: str) -> None:
        found = [it for it in self.items if b'"name": "%s"' % name.encode() in it]
        if found:
            connection.answer(found[0])
        else:
            connection.answer(b"{}", status="404 Not Found")

    def _watch(self, connection: Connection) -> None:
        with self._news:
            told = len(self._lines)
        self.watches += 1
        connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            with self._news:
                while len(self._lines) == told and not self._is_over:
                    self._news.wait()
                if self._is_over:
                    return
                lines, told = self._lines[told:], len(self._lines)
            for line in lines:
                connection.send(b"%x\r\n%s\r\n" % (len(line), line))


@contextmanager
def relay_before(upstream: Upstream, folder: Path) -> Iterator[tuple[RelayProcess, FaultProxy]]:
    with RawServer(upstream.serve) as server:
        link = FaultProxy(server.port)
        link.start()
        server_flag = f"--server=http://127.0.0.1:{link.port}"
        relay = RelayProcess([server_flag, "--probe-interval=300ms"], data_dir=folder / "data")
        try:
            yield relay.start(), link
        finally:
            upstream.end()
            relay.stop()
            link.stop()


def counted(relay: RelayProcess, what: str) -> int:
    return metric(relay, "relay_unreadable_total", f'what="{what}"')


def metric(relay: RelayProcess, name: str, label: str = "") -> int:
    lines = (it for it in relay.metrics().splitlines() if it.startswith(name) and label in it)
    return sum(int(float(it.rpartition(" ")[2])) for it in lines)


@pytest.mark.parametrize("which", ITEMS)
def test_r6_an_item_that_cannot_be_read_is_stepped_over(which: str, tmp_path: Path) -> None:
    upstream = Upstream(10, configmap("a", 5), ITEMS[which], configmap("b", 6))
    with relay_before(upstream, tmp_path) as (relay, _):
        client = Caller(relay.url)
        relay.wait_link(up=True)
        # Whoever asks gets all that upstream has, this item, too.
        for query in ({}, {"resourceVersion": "0"}):
            assert client.get(PATH, query).body == upstream.body()
        wait_for(
            lambda: relay.status()["streams"][0]["objects"] == 2,
            timeout=SOON,
            what="what is beside it",
        )
        assert counted(relay, "item") == 1
        assert client.get(PATH, {"resourceVersion": "0"}).body == upstream.body()
        wait_for(lambda: upstream.watches == 1, timeout=SOON, what="a watch")
        with client.watch(PATH, {"resourceVersion": "10", "timeoutSeconds": "60"}) as watching:
            upstream.send(event("ADDED", configmap("c", 11)))
            watching.wait_told(("ADDED", "c"))
        assert upstream.watches == 1
        assert client.get(f"{PATH}/y").status == 404


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
def test_r6_while_cut_what_could_not_be_read_is_unknown_not_absent(
    is_restarted: bool, tmp_path: Path
) -> None:
    upstream = Upstream(10, configmap("a", 5), ITEMS["no metadata"])
    with relay_before(upstream, tmp_path) as (relay, link):
        relay.wait_link(up=True)
        client = Caller(relay.url)
        client.get(PATH)
        wait_for(
            lambda: relay.status()["streams"][0]["objects"] == 1,
            timeout=SOON,
            what="something that is kept",
        )
        link.refuse()
        relay.wait_link(up=False)
        if is_restarted:
            relay.kill()
            relay.start()
        assert client.get(PATH).names == ["a"]
        client.get(f"{PATH}/a").expect()
        client.get(f"{PATH}/x").expect(503)


@pytest.mark.parametrize("which", EVENTS)
def test_r1_an_event_that_cannot_be_read_ends_no_watch(which: str, tmp_path: Path) -> None:
    upstream = Upstream(10, configmap("a", 5))
    with relay_before(upstream, tmp_path) as (relay, _):
        client = Caller(relay.url)
        relay.wait_link(up=True)
        version = client.get(PATH).version
        wait_for(lambda: upstream.watches == 1, timeout=SOON, what="a watch")
        with client.watch(PATH, {"resourceVersion": version, "timeoutSeconds": "60"}) as watching:
            upstream.send(event("ADDED", configmap("b", 11)))
            watching.wait_told(("ADDED", "b"))
            upstream.version = 13
            upstream.items = (configmap("a", 5), configmap("b", 11), configmap("c", 13))
            # In one batch, and on its own.
            garbage = EVENTS[which] + b"\n"
            upstream.send(garbage, event("ADDED", configmap("c", 13)), garbage)
            watching.wait_told(("ADDED", "b"), ("ADDED", "c"))
            wait_for(lambda: counted(relay, "event") == 2, timeout=SOON, what="the count")
            wait_for(
                lambda: client.get(PATH, {"resourceVersion": "0"}).names == ["a", "b", "c"],
                timeout=SOON,
                what="the whole list",
            )
            assert watching.is_open
        assert upstream.watches == 1
        assert "upstream sent what cannot be read" in relay.log_text()


def test_r6_what_an_unreadable_event_hid_is_found(tmp_path: Path) -> None:
    upstream = Upstream(10, configmap("a", 5), configmap("b", 6))
    with relay_before(upstream, tmp_path) as (relay, link):
        client = Caller(relay.url)
        relay.wait_link(up=True)
        assert client.get(PATH).names == ["a", "b"]
        wait_for(lambda: upstream.watches == 1, timeout=SOON, what="a watch")
        # b was deleted, and nobody could read that.
        upstream.version, upstream.items = 13, (configmap("a", 5), configmap("c", 13))
        upstream.send(b'{"type":"DELETED","object":{}}\n', event("ADDED", configmap("c", 13)))
        wait_for(lambda: counted(relay, "event") == 1, timeout=SOON, what="the count")
        wait_for(lambda: metric(relay, "relay_relists") == 1, timeout=SOON, what="the end of b")
        link.refuse()
        relay.wait_link(up=False)
        assert client.get(PATH).names == ["a", "c"]
        client.get(f"{PATH}/b").expect(404)
