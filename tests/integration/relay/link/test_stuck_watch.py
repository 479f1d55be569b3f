"""Rule 9.2: a version that no watch gets past is given up, while lists work: what is answered is
what upstream holds now, and whoever watches is to list again."""

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.pods.wire.raw_server import Connection, RawServer

pytestmark = pytest.mark.slow

PATH = "/api/v1/namespaces/n/configmaps"
# Seconds.
SOON, MEASURED = 20.0, 10.0

NOTHING = b'{"type":"ADDED","object":{}}\n'


class Upstream:
    """Lists are fine, each with one object more; of watches comes only what `watch` sends."""

    def __init__(self, watch: Callable[[Connection], None]) -> None:
        self._watch = watch
        self._versions = itertools.count(1000)
        self.lists: list[float] = []
        self.watches: list[float] = []
        self._lock = threading.Lock()

    def serve(self, connection: Connection) -> None:
        with suppress(ConnectionError):
            while request := connection.request():
                target = request.split(b" ", 2)[1].decode()
                if "watch=true" in target:
                    self.watches.append(time.monotonic())
                    self._watch(connection)
                elif target.startswith(PATH):
                    self.lists.append(time.monotonic())
                    connection.answer(self._list())
                else:
                    connection.answer(b"{}")

    def _list(self) -> bytes:
        with self._lock:
            version = next(self._versions)
        meta = {"name": f"at-{version}", "namespace": "n", "resourceVersion": str(version)}
        item = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta}
        listed = {"kind": "ConfigMapList", "apiVersion": "v1", "items": [item]}
        return json.dumps({**listed, "metadata": {"resourceVersion": str(version)}}).encode()


WATCHES: dict[str, Callable[[Connection], None]] = {
    "ends": lambda connection: connection.answer(b""),
    "begins with nothing": lambda connection: connection.answer(NOTHING),
    "fails": lambda connection: connection.answer(b"{}", status="500 Internal Server Error"),
    "garbles": lambda connection: connection.answer(b"\x00garbage\n"),
}


@contextmanager
def relay_before(upstream: Upstream) -> Iterator[RelayProcess]:
    with RawServer(upstream.serve) as server:
        relay = RelayProcess([f"--server={server.url}"])
        try:
            yield relay.start()
        finally:
            relay.stop()


@pytest.mark.parametrize(
    "kind", [it if it == "ends" else pytest.param(it, marks=pytest.mark.long) for it in WATCHES]
)
def test_r4_a_version_that_no_watch_gets_past_is_listed_anew(kind: str) -> None:
    upstream = Upstream(WATCHES[kind])
    with relay_before(upstream) as relay:
        client = Caller(relay.url)
        first = client.get(PATH, {"resourceVersion": "0"}).names
        deadline = time.monotonic() + SOON
        while client.get(PATH, {"resourceVersion": "0"}).names == first:
            assert time.monotonic() < deadline, "the first list for ever"
            time.sleep(0.1)
        began = time.monotonic()
        time.sleep(MEASURED)
        for asked in (upstream.lists, upstream.watches):
            assert sum(at > began for at in asked) <= 2 * MEASURED
