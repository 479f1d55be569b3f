"""Many LCs in one process.

    python -m tools.bench.gm.scenarios.crowd_lcs --address HOST:PORT --nodes FILE

Each has a connection of its own, says hello, reads what it is given and keeps nothing; it redials
as an LC does. Prints one line of JSON when all have their snapshots, then stays until standard
input ends.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop

from edge_sidecars.runtime.backoff import Backoff
from edge_sidecars.sedna_api import stream_pb2 as wire
from edge_sidecars.sedna_api.core.messages import Hello
from edge_sidecars.sedna_api.stream_codec import METHOD, encode_from_node
from lc.stream.stream_link import OPTIONS


@dataclass
class Tally:
    """Of all LCs together."""

    served: int = 0
    objects: int = 0
    dials: int = 0


async def be(node: str, address: str, tally: Tally, is_served: asyncio.Event) -> None:
    """Until cancelled."""
    backoff = Backoff()
    while True:
        tally.dials += 1
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            connect: Any = channel.stream_stream(METHOD)
            call = connect()
            try:
                await call.write(encode_from_node(Hello(node, f"store-{node}", {}, "bench")))
                await _read(call, tally, is_served)
            except grpc.aio.AioRpcError:
                pass
        await asyncio.sleep(backoff.failed(random.random()))


async def _read(call: Any, tally: Tally, is_served: asyncio.Event) -> None:
    while (data := await call.read()) is not grpc.aio.EOF:
        match wire.ToNode.FromString(data).WhichOneof("message"):
            case "put" if not is_served.is_set():
                tally.objects += 1
            case "snapshot_end":
                tally.served += not is_served.is_set()
                is_served.set()


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.gm.scenarios.crowd_lcs")
    parser.add_argument("--address", required=True)
    parser.add_argument("--nodes", type=Path, required=True, help="a file with a name a line")
    arguments = parser.parse_args()
    nodes = arguments.nodes.read_text(encoding="utf-8").split()
    tally, began = Tally(), time.monotonic()
    served = [asyncio.Event() for _ in nodes]
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(be(node, arguments.address, tally, event))
            for node, event in zip(nodes, served, strict=True)
        ]
        for event in served:
            await event.wait()
        seconds = time.monotonic() - began
        told = {"seconds": seconds, "objects": tally.objects, "dials": tally.dials}
        print(json.dumps(told), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in tasks:
            task.cancel()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
