"""A Kubernetes API server in one process, for demos and tests: prints its URL when it answers.

    python -m tools.local_apiserver [--listen 127.0.0.1:10560] [--data-dir DIR]

Whoever reaches it may do anything. It ends at SIGINT and SIGTERM, after the writes that were begun.
"""

import argparse
import asyncio
import logging
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import Address, BadInput, address
from edge_sidecars.runtime.log import setup
from edge_sidecars.runtime.process import exit_on_bad_input
from edge_sidecars.runtime.tasks import Tasks
from edge_sidecars.runtime.web.listener import Listener, ListenerOptions
from edge_sidecars.walstore.files import DirectoryInUse
from tools.local_apiserver.http_api import HttpApi
from tools.local_apiserver.local_apiserver import LocalApiServer
from tools.local_apiserver.storage import Unusable

# Connections at a time: informers of many components, each with some.
CONNECTIONS: Final = 1024
# Bytes of a head, as Go's servers have it (http.DefaultMaxHeaderBytes): selectors are in it.
MAX_HEADER: Final = 1024 * 1024
# `keepalive_timeout` in seconds: Go's transports keep an idle connection for 90 and end it.
OPTIONS: Final = ListenerOptions(
    log="local_apiserver.http",
    backlog=512,
    shutdown_grace=1.0,
    max_head=MAX_HEADER,
    http={"keepalive_timeout": 120.0},
)


async def serve(listen: Address, data_dir: Path | None) -> None:
    """Until a signal. Raises `BadInput`."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        try:
            server = await LocalApiServer.open(data_dir)
        except (Unusable, DirectoryInUse) as error:
            raise BadInput(f"--data-dir {data_dir}: {error}") from error
        stack.push_async_callback(server.close)
        async with asyncio.TaskGroup() as group:
            tasks = Tasks(group)
            tasks.spawn(server.run())
            api = HttpApi(server)
            listener = Listener(listen, api.handle, options=OPTIONS, limit=CONNECTIONS)
            await listener.open()
            sys.stdout.write(f"http://{listener.bound}\n")
            sys.stdout.flush()
            await stopping.wait()
            await listener.close()
            tasks.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.local_apiserver", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="port 0: any; default %(default)s",
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="where objects are kept; default: nowhere"
    )
    arguments = parser.parse_args()
    setup("text", "info")
    logging.getLogger(OPTIONS.log).setLevel(logging.WARNING)
    with exit_on_bad_input("local_apiserver"):
        asyncio.run(serve(address(arguments.listen), arguments.data_dir))


if __name__ == "__main__":
    main()
