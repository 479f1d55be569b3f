"""A listener whose clients want all descriptors leaves those that the process needs."""

import asyncio
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from edge_sidecars.runtime.scarcity import RESERVED_DESCRIPTORS
from tools.harness.controlplane.reservation import LOOPBACK

DESCRIPTORS = 160
# A server whose handler needs as many descriptors as are reserved, but for some of its own.
SERVER = f"""
import asyncio, os, sys
import {{module}}
from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.log import setup
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions

setup("text", "info")

async def handle(request):
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range({RESERVED_DESCRIPTORS - 4})]
    for each in held:
        os.close(each)
    return web.Response(text="ok")

async def main():
    options = ListenerOptions(log="test", backlog=512, shutdown_grace=0.1)
    listener = Listener(Address("{LOOPBACK}", 0), handle, options=options, limit=1000)
    await listener.open()
    print(listener.bound.port, flush=True)
    await asyncio.Event().wait()

with asyncio.Runner(loop_factory={{module}}.new_event_loop) as runner:
    runner.run(main())
"""


@contextmanager
def serving(module: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(module=module)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
            yield port, process
        finally:
            process.kill()


def ask(port: int) -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=5) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        try:
            return sock.recv(65536)
        except ConnectionError:
            return b""


@pytest.mark.parametrize("module", [asyncio.__name__, "uvloop"])
def test_clients_never_get_the_descriptors_that_the_process_needs(module: str) -> None:
    with serving(module) as (port, process), ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(socket.create_connection((LOOPBACK, port), timeout=5))
        deadline = time.monotonic() + 30
        while not (answer := ask(port)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.startswith(b"HTTP/1.1 200 OK")
        process.kill()
        assert process.stderr is not None
        said = process.stderr.read()
        assert said.count("run out of") == 1, said
        assert "Traceback" not in said
