"""Many LCs in one process, which redial as LC does and report all the time.

python -m tools.bench.gm.scenarios.reconnect_lcs --addresses HOST:PORT,... --nodes FILE --uids FILE

Each has a connection of its own. Ten times a second one line of JSON: how many are served, how many
connections each address took since the last line, how many reports were acknowledged. Ends when
standard input ends.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop

from edge_sidecars.runtime.backoff import LONGEST
from edge_sidecars.sedna_api.core.messages import Ack, Drain, Hello, Pace, SnapshotEnd
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.stream_codec import METHOD, decode_to_node, encode_from_node
from lc.core.dial_policy import DialPolicy
from lc.stream.stream_link import OPTIONS

# Seconds between two reports of one LC, on average.
REPORT_EVERY = 30.0
TICK = 0.1
# Seconds; as LC waits for the first message.
PATIENCE = 10.0


@dataclass
class Tally:
    """Of all LCs together."""

    served: set[str] = field(default_factory=set)
    taken: Counter[str] = field(default_factory=Counter)
    acked: int = 0


class Lc:
    def __init__(self, node: str, uid: str, addresses: list[str], tally: Tally) -> None:
        self._node, self._uid, self._tally = node, uid, tally
        self._dial_policy = DialPolicy(addresses, longest=LONGEST)
        self._seq = 0
        self._served_at: float | None = None

    async def be(self) -> None:
        """Until cancelled."""
        while True:
            address = self._dial_policy.address(random.random())
            is_drained, self._served_at = False, None
            channel = grpc.aio.insecure_channel(address, options=OPTIONS)
            try:
                is_drained = await self._connected(channel, address)
            except (TimeoutError, grpc.aio.AioRpcError):
                pass
            finally:
                self._tally.served.discard(self._node)
                await channel.close()
            since = None if self._served_at is None else time.monotonic() - self._served_at
            delay = self._dial_policy.ended(
                served_for=since, is_drained=is_drained, chance=random.random()
            )
            await asyncio.sleep(delay)

    async def _connected(self, channel: grpc.aio.Channel, address: str) -> bool:
        """Whether GM asked to redial."""
        async with asyncio.timeout(PATIENCE):
            await _listened(channel)
        self._tally.taken[address] += 1
        method: Any = channel.stream_stream(METHOD)
        call = method()
        await call.write(encode_from_node(Hello(self._node, f"store-{self._node}", {}, "bench")))
        reporting: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(PATIENCE) as patience:
                while (data := await call.read()) is not grpc.aio.EOF:
                    patience.reschedule(None)
                    match decode_to_node(data):
                        case SnapshotEnd():
                            self._served_at = time.monotonic()
                            self._tally.served.add(self._node)
                            reporting = asyncio.create_task(self._report(call))
                        case Pace(seconds):
                            self._dial_policy.paced(seconds)
                        case Ack():
                            self._tally.acked += 1
                        case Drain():
                            return True
            return False
        finally:
            if reporting is not None:
                reporting.cancel()
                await asyncio.wait({reporting})

    async def _report(self, call: Any) -> None:
        while True:
            await asyncio.sleep(random.uniform(0, 2 * REPORT_EVERY))
            self._seq += 1
            body = json.dumps({"numberOfSamples": self._seq}).encode()
            store = f"store-{self._node}"
            report = Report(
                *(store, self._seq, self._uid, "dataset"),
                namespace=self._node.partition(".")[2],
                name=f"d-{self._node.partition('.')[0]}",
                is_event=False,
                worker="",
                body=body,
            )
            try:
                await call.write(encode_from_node(report))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                # Whoever reads the call learns why.
                return


async def _listened(channel: grpc.aio.Channel) -> None:
    """Returns when there is a connection. Raises `TimeoutError` where there is none at once: gRPC
    would try again by itself, an LC does not."""
    state = channel.get_state(try_to_connect=True)
    while state is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            raise TimeoutError("nobody listens")
        await channel.wait_for_state_change(state)
        state = channel.get_state()


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.gm.scenarios.reconnect_lcs")
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--nodes", type=Path, required=True, help="node and uid, a pair a line")
    arguments = parser.parse_args()
    pairs = [it.split() for it in arguments.nodes.read_text(encoding="utf-8").splitlines()]
    tally = Tally()
    addresses = arguments.addresses.split(",")
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(Lc(node, uid, addresses, tally).be()) for node, uid in pairs]
        tasks.append(group.create_task(_tell(tally)))
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()


async def _tell(tally: Tally) -> None:
    while True:
        taken, tally.taken = tally.taken, Counter()
        told = {
            "at": time.monotonic(),
            "served": len(tally.served),
            "taken": taken,
            "acked": tally.acked,
        }
        print(json.dumps(told), flush=True)
        await asyncio.sleep(TICK)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
