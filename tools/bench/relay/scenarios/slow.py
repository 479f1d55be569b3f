"""A reader that never reads, beside ten that do.

Guarantees: the ten get every event in order, with and without it, which is checked; memory is
that of the relay, from when its buffers have their size to the most that it ever was.
"""

import socket
import time
from urllib.parse import urlsplit

from tools.bench.process import MIB, memory
from tools.bench.progress import say
from tools.bench.relay.load import LoadFailed
from tools.bench.relay.scenarios.fanout import Disordered, Fanout, measured
from tools.bench.relay.scenarios.memory import peak, reset_peak
from tools.bench.relay.world import Pods, World
from tools.bench.runner import Options
from tools.bench.samples import OURS, Result, Sample
from tools.harness.pods.relay import RelayProcess

PODS = 200
POD_BYTES = 5000
OTHERS = Fanout(10, 300)
# Of all events, before the reader comes: windows and buffers get their size.
SHARE_BEFORE = 0.25
# Bytes that its kernel takes for it: little, as of a reader on a bad link.
RECEIVE_BUFFER = 16 * 1024
CONNECT_TIMEOUT = 10.0


def slow_reader(world: World, options: Options) -> list[Result]:
    result = Result("slow", OURS)
    pods = world.pods(PODS, size=POD_BYTES, is_managed=False)
    for _ in range(options.runs):
        with world.relay() as relay:
            try:
                sample = _run(world, options, relay, pods)
            except (LoadFailed, Disordered) as error:
                result.failures.append(str(error))
                say(f"slow FAILED: {error}")
                continue
        result.samples.append(sample)
        said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
        say(f"slow: {said}")
    return [result]


def _run(world: World, options: Options, relay: RelayProcess, pods: Pods) -> Sample:
    seconds = options.events / OTHERS.rate
    before = measured(world, OTHERS, relay, pods=pods, seconds=seconds * SHARE_BEFORE)
    rss = memory(relay.pid).rss
    reset_peak(relay.pid)
    with _watching(relay, pods) as reader:
        beside = measured(world, OTHERS, relay, pods=pods, seconds=seconds)
        is_ended = _is_ended(reader)
    return {
        "before_p99_ms": before["delay_p99_ms"],
        "beside_p99_ms": beside["delay_p99_ms"],
        "before_added_p99_ms": before["added_p99_ms"],
        "beside_added_p99_ms": beside["added_p99_ms"],
        "events": beside["delivered"] / OTHERS.watchers,
        "grown_mib": (peak(relay.pid) - rss) / MIB,
        "kept_mib": (memory(relay.pid).rss - rss) / MIB,
        "is_ended": float(is_ended),
    }


def _watching(relay: RelayProcess, pods: Pods) -> socket.socket:
    """A connection that asked for everything and reads nothing."""
    address = urlsplit(relay.url)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    reader.settimeout(CONNECT_TIMEOUT)
    reader.connect((address.hostname, address.port))
    request = (
        f"GET {pods.path}?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
    )
    reader.sendall(request.encode())
    return reader


def _is_ended(reader: socket.socket) -> bool:
    """Whether the relay has ended it: once what the kernel holds is read, no more comes."""
    reader.settimeout(1.0)
    deadline = time.monotonic() + CONNECT_TIMEOUT
    try:
        while time.monotonic() < deadline:
            if not reader.recv(MIB):
                return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return False
