"""Which requests are for a component's page; loads what serves it when the first of them comes.

Guarantee: a process whose page no client asks for has only this module of it. A client that is no
browser gets what it got before there was a page, also where its library names text/html in Accept
without being asked, as Java's does.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from edge_sidecars.runtime.web import aiohttp_web as web

if TYPE_CHECKING:
    from edge_sidecars.runtime.web.page.served import ServedPage

# Pages that follow one process at a time; each costs a connection.
MAX_STREAMS: Final = 10
# The document, as server-sent events or once as JSON.
EVENTS: Final = "/status/events"
FILES: Final = "/page/"
HTML: Final = "text/html"
# Java's HttpURLConnection names it beside text/html; a browser of this century does not.
_OF_JAVA: Final = "image/gif"


class Page:
    """`component` has a script of this name; `document` is computed in the request that asks;
    `streams`: how many may follow it at a time; `draws`: components whose scripts this one uses."""

    def __init__(
        self,
        component: str,
        document: Callable[[], bytes],
        *,
        streams: int = MAX_STREAMS,
        draws: Sequence[str] = (),
    ) -> None:
        self._component = component
        self._document = document
        self._streams = streams
        self._draws = draws
        self._served: ServedPage | None = None

    def has(self, request: web.BaseRequest) -> bool:
        """Whether `answer` is to answer it."""
        path = request.path
        if path == "/":
            return wants_html(request.headers.get("Accept", ""))
        return path == EVENTS or path.startswith(FILES)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._served is None:
            from edge_sidecars.runtime.web.page.served import ServedPage

            self._served = ServedPage(
                self._component, self._document, streams=self._streams, draws=self._draws
            )
        return await self._served.answer(request)


def wants_html(accept: str) -> bool:
    """Whether the client names text/html, and JSON not before it."""
    weights = dict(_clause(it) for it in accept.split(","))
    html = weights.get(HTML, 0.0)
    return html > 0 and _OF_JAVA not in weights and html >= weights.get("application/json", 0.0)


def _clause(text: str) -> tuple[str, float]:
    media, *parameters = (it.strip().lower() for it in text.split(";"))
    for it in parameters:
        if it.startswith("q="):
            try:
                return media, float(it[2:])
            except ValueError:
                return media, 0.0
    return media, 1.0
