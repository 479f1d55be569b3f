"""Work that a disk may hang: its result comes back, and the end of the process does not wait."""

import asyncio
import subprocess
import sys

import pytest

from edge_sidecars.runtime.daemon_thread import in_daemon_thread


def test_what_it_returns_and_raises_comes_back() -> None:
    def fail() -> int:
        raise OSError("no space left")

    async def run() -> None:
        assert await in_daemon_thread(lambda: 7) == 7
        with pytest.raises(OSError, match="no space left"):
            await in_daemon_thread(fail)

    asyncio.run(run())


def test_a_process_ends_though_its_work_hangs() -> None:
    program = """
import asyncio, threading
from edge_sidecars.runtime.daemon_thread import in_daemon_thread
async def main():
    asyncio.create_task(in_daemon_thread(threading.Event().wait))
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert done.returncode == 0
