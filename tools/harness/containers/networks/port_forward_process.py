"""Lets others in to what listens on a pod's localhost; runs in a container of the pod.

`doorkeeper.py ADDRESS PORT` passes each connection to ADDRESS:PORT on to 127.0.0.1:PORT, bytes and
their end, both ways. It knows no protocol. Guarantee: where nobody listens there, the connection
is closed at once.
"""

import asyncio
import sys

CHUNK = 65536


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Up to the end; ends the other side's, too."""
    try:
        while data := await source.read(CHUNK):
            target.write(data)
            await target.drain()
        if target.can_write_eof():
            target.write_eof()
    except OSError:
        # The other direction finds out by itself.
        target.close()


async def _let_in(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(_pass_on(reader, inner_writer), _pass_on(inner_reader, writer))
    finally:
        inner_writer.close()
        writer.close()


async def _serve(address: str, port: int) -> None:
    server = await asyncio.start_server(
        lambda reader, writer: _let_in(port, reader, writer), address, port
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2])))
