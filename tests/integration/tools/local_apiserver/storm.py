"""A process that writes to an server in a directory as fast as it can, and says what was answered.

Each writer has one object, whose writes are numbered; the last of ten deletes it. A line is
`name number version`, the version 0 for a deletion. Killed by whoever started it.
"""

import asyncio
import json
import sys
from http import HTTPStatus
from pathlib import Path

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from tools.local_apiserver import Answer, LocalApiServer

PATH = "/api/v1/namespaces/default/configmaps"
WRITERS = 8


async def write(server: LocalApiServer, writer: int, first: int) -> None:
    name = f"c-{writer}"
    for number in range(first, sys.maxsize):
        if is_deletion(number):
            await ask(server, "DELETE", f"{PATH}/{name}", b"")
            say(name, number, "0")
            continue
        meta = {"name": name, "labels": {"number": str(number)}}
        body = json.dumps({"metadata": meta, "data": {"filler": "x" * 200}}).encode()
        answer = await ask(server, "PUT", f"{PATH}/{name}", body)
        if answer.status == HTTPStatus.NOT_FOUND:
            answer = await ask(server, "POST", PATH, body)
        say(name, number, json.loads(answer.body)["metadata"]["resourceVersion"])


def is_deletion(number: int) -> bool:
    return number % 10 == 9


async def ask(server: LocalApiServer, method: str, path: str, body: bytes) -> Answer:
    return await server.write(RequestInfo.parse(method, path), headers={}, body=body)


def say(name: str, number: int, version: str) -> None:
    sys.stdout.write(f"{name} {number} {version}\n")
    sys.stdout.flush()


async def storm(directory: Path, first: int) -> None:
    server = await LocalApiServer.open(directory)
    await asyncio.gather(*(write(server, writer, first) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(storm(Path(sys.argv[1]), int(sys.argv[2])))
