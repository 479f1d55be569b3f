"""`edge-sidecars top ADDRESS...`: what the pages of several components show, live.

A terminal by default; `--once` writes the present state and ends; `--web` serves one page of all of
them on loopback. Only the terminal needs rich, the extra `top`.
"""

import asyncio
import signal
import sys
from argparse import Namespace
from collections.abc import Mapping
from urllib.parse import urlsplit

from edge_sidecars.runtime.cli.parser import Parser
from edge_sidecars.runtime.cli.startup import missing_extra
from edge_sidecars.runtime.cli.values import Address, BadInput, loopback
from edge_sidecars.runtime.cli.values import url as checked_url
from edge_sidecars.runtime.process import BAD_INPUT
from edge_sidecars.top.followed import Followed, following

PROGRAM = "edge-sidecars top"
DEFAULT_LISTEN = "127.0.0.1:4049"
# More do not fit on a screen, and each is a connection.
MAX_COMPONENTS = 64


def parser() -> Parser:
    it = Parser(
        prog=PROGRAM,
        description="Shows what the pages of several components show: electors, relays, pool "
        "members and controllers, GM, LC. Ctrl-C ends it.",
        example=f"{PROGRAM} 127.0.0.1:4040 127.0.0.1:10551",
        manual="how-to/look-at-it",
    )
    it.add_argument(
        "addresses",
        nargs="+",
        metavar="ADDRESS",
        help="host:port or http://host:port of a component's page, or the port on 127.0.0.1",
    )
    it.add_argument("--once", action="store_true", help="write the present state, and end")
    it.add_argument("--web", action="store_true", help="serve one page for a browser instead")
    it.add_argument(
        "--listen",
        metavar="ADDRESS",
        help=f"where, with --web; a loopback address; default {DEFAULT_LISTEN}",
    )
    return it


def main(arguments: list[str], environ: Mapping[str, str]) -> int:
    """0 after Ctrl-C, or where all answered; 1 where one did not; 2 for bad input."""
    try:
        given = parser().parse_args(arguments)
        components = _components(given.addresses)
        listen = _listen(given)
        if listen is not None:
            return asyncio.run(_serve(components, listen))
        return asyncio.run(_show(components, once=given.once or not sys.stdout.isatty()))
    except BadInput as error:
        sys.stderr.write(f"{PROGRAM}: {' '.join(str(error).split())}\n")
        return BAD_INPUT
    except ModuleNotFoundError as error:
        return missing_extra(error, program=PROGRAM, extra="top")
    except KeyboardInterrupt:
        return 0


def _listen(given: Namespace) -> Address | None:
    """None for the terminal. Raises `BadInput`."""
    if given.web and given.once:
        raise BadInput("--web and --once exclude each other: drop one")
    if not given.web:
        if given.listen is not None:
            raise BadInput(f"--listen {given.listen} is of the page: add --web")
        return None
    try:
        return loopback(given.listen or DEFAULT_LISTEN)
    except BadInput as error:
        raise BadInput(f"--listen {error}") from error


def _components(addresses: list[str]) -> list[Followed]:
    """Raises `BadInput`."""
    if len(addresses) > MAX_COMPONENTS:
        raise BadInput(f"{len(addresses)} addresses: name at most {MAX_COMPONENTS}")
    found = [Followed(it, _url(it)) for it in addresses]
    urls = [it.url for it in found]
    for it in found:
        if urls.count(it.url) > 1:
            raise BadInput(f"{it.address!r:.80} is given twice: drop one")
    return found


def _url(text: str) -> str:
    """Without a path. Raises `BadInput`."""
    if text.isascii() and text.isdecimal():
        text = f"127.0.0.1:{text}"
    is_bare = "://" not in text
    whole = f"http://{text}" if is_bare else text
    try:
        parts = urlsplit(checked_url(whole))
        port = parts.port
    except ValueError:  # BadInput is one
        parts, port = urlsplit(""), None
    is_whole = parts.scheme == "http" and parts.path in ("", "/") and not parts.query
    if port is None or not is_whole or parts.username is not None:
        example = "127.0.0.1:4040" if is_bare else "http://127.0.0.1:4040"
        raise BadInput(
            f"ADDRESS {text!r:.80} is not where a page is: write it like {example}; "
            f"`{PROGRAM} --help` lists the flags"
        )
    return f"http://{parts.netloc}"


async def _show(components: list[Followed], *, once: bool) -> int:
    from edge_sidecars.top.terminal import Terminal

    terminal = Terminal(components)
    async with following(components, terminal.wake):
        if once:
            return await terminal.show_once()
        await terminal.show_until(_stopped())
        return 0


async def _serve(components: list[Followed], listen: Address) -> int:
    from edge_sidecars.top.combined_page import listening

    stopped = _stopped()
    async with listening(components, listen) as bound, following(components, lambda: None):
        sys.stdout.write(f"http://{bound}/\n")
        sys.stdout.flush()
        await stopped.wait()
    return 0


def _stopped() -> asyncio.Event:
    """Set by Ctrl-C, SIGTERM, or the end of the terminal."""
    event, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, event.set)
    return event
