"""A node's end of the stream, one message at a time: for what a real LC would never say, or only
when it pleases.

Guarantees: what came is kept in order; a test's thread asks, another one reads.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeVar

import grpc

from edge_sidecars.sedna_api.core.messages import Ack, Hello, ReportRefused, ToNode
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import METHOD, decode_to_node, encode_from_node
from tools.harness.controlplane.reservation import LOOPBACK

PATIENCE = 30.0
POLL_INTERVAL = 0.02

Json = dict[str, Any]
M = TypeVar("M")


class NodeStream:
    """Says hello when it is entered."""

    def __init__(
        self,
        port: int,
        node: str,
        *,
        store_id: str = "store-1",
        known: Mapping[str, int] | None = None,
    ) -> None:
        self.node = node
        self.store_id = store_id
        self.messages: list[ToNode] = []
        self.ended: grpc.StatusCode | None = None
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._channel = grpc.insecure_channel(f"{LOOPBACK}:{port}")
        self._hello = Hello(node, store_id, dict(known or {}), "test")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._call: Any = None

    def __enter__(self) -> Self:
        connect: Any = self._channel.stream_stream(METHOD)
        self._call = connect(self._requests())
        self._outgoing.put(encode_from_node(self._hello))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()
        self._outgoing.put(None)
        self._channel.close()
        self._thread.join(PATIENCE)

    def report(
        self,
        about: Json,
        body: bytes,
        *,
        seq: int,
        previous: int = 0,
        is_event: bool = False,
        worker: str = "",
    ) -> Report:
        """About an object as the API has it."""
        metadata = about["metadata"]
        report = Report(
            store_id=self.store_id,
            seq=seq,
            uid=metadata["uid"],
            kind=about["kind"].lower(),
            namespace=metadata["namespace"],
            name=metadata["name"],
            is_event=is_event,
            worker=worker,
            body=body,
            previous=previous,
        )
        self._outgoing.put(encode_from_node(report))
        return report

    def of(self, kind: type[M]) -> list[M]:
        """What came of one kind of message."""
        return [it for it in list(self.messages) if isinstance(it, kind)]

    def wait(self, condition: Callable[[Self], object], *, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition(self):
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.node} waits for {what}: {self.messages[-5:]}, ended: {self.ended}"
                )
            time.sleep(POLL_INTERVAL)

    def answer(self, report: Report) -> Ack | ReportRefused:
        """To this report."""

        def found() -> list[Ack | ReportRefused]:
            answers: list[Ack | ReportRefused] = [*self.of(Ack), *self.of(ReportRefused)]
            return [it for it in answers if it.uid == report.uid and it.seq >= report.seq]

        self.wait(lambda _: found(), what=f"an answer about {report.name} {report.seq}")
        return found()[0]

    def _requests(self) -> Iterator[bytes]:
        while True:
            message = self._outgoing.get()
            if message is None:
                return
            yield message

    def _read(self) -> None:
        try:
            for line in self._call:
                message = decode_to_node(line)
                assert message is not None, "of a newer GM"
                self.messages.append(message)
            self.ended = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.ended = error.code()
