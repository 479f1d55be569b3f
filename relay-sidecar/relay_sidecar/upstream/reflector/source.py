"""Lists and watches of upstream, as a reflector asks for them, and the feed of one stream.

Lists come compressed, watches in whole lines. Each answer of an API server is evidence that the
link is there. A feed is the API server or a hub of the pool. An API server that was just started
answers 403 to what is allowed, until it has read its roles, and says so in /readyz. A refusal
counts when it comes again a second after upstream was ready, or after a minute.
"""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlencode

from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import ApiError, ApiTransport, Request, Response, Unreachable
from edge_sidecars.runtime.formats.media_type import is_page
from relay_sidecar.core.caching import AGE, Staleness
from relay_sidecar.core.link import LinkEvidence, is_of_api_server
from relay_sidecar.core.stream.lists import ACCEPT
from relay_sidecar.core.stream.reflection import LinkVerdict
from relay_sidecar.telemetry.metrics import RelayCounters
from relay_sidecar.upstream.failures import evidence_of
from relay_sidecar.upstream.link_probe import LinkProbe

# Bytes; a chained relay answers a list whole, whatever the limit. 100,000 objects of 3 KB.
MAX_PAGE = 512 * 1024 * 1024

# Bytes of an event that is still coming after which its watch is not silent: on a thin link one of
# a megabyte takes minutes; what brings fewer within the longest silence is as good as none.
PROGRESS: Final = 16 * 1024


class UpstreamSource:
    """`met` is called with what each request met with, `authenticated` with the status of each
    answer to the relay's own credentials. `page` and `batches` raise `ApiError` and
    `Unreachable`."""

    def __init__(
        self,
        transport: ApiTransport,
        *,
        request_timeout: float,
        met: Callable[[LinkEvidence], None],
        authenticated: Callable[[int], None],
        counters: RelayCounters,
        is_thin: Callable[[], bool] = lambda: True,
    ) -> None:
        """`is_thin`: fewer bytes are worth the time to compress them."""
        self._transport = transport
        self._timeout = request_timeout
        self._met = met
        self._authenticated = authenticated
        self._counters = counters
        self._is_thin = is_thin

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray:
        """The whole body; `arrived` is called with it, as far as it has come, each time more has;
        `aged` with the seconds since upstream itself knew it to be so, where it says them."""
        request = Request(
            "GET",
            _target(path, params),
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=(("Accept", accept), ("Accept-Encoding", "gzip")),
            is_decoded=True,
        )
        return await self._whole(request, arrived=arrived, aged=aged)

    async def metadata(self, scope: ListScope, *, header_timeout: float) -> bytearray | None:
        """The whole list as metadata, as `read_metadata` reads it; None where upstream itself is
        cut off. Raises as `page`."""
        encoding = "gzip" if self._is_thin() else "identity"
        request = Request(
            "GET",
            _target(scope.path, scope.params),
            header_timeout=header_timeout,
            headers=(("Accept", ACCEPT), ("Accept-Encoding", encoding)),
            is_decoded=True,
        )
        ages = list[float]()
        body = await self._whole(request, aged=ages.append)
        return None if ages else body

    async def _whole(
        self,
        request: Request,
        *,
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray:
        try:
            async with self._transport.send(request) as answer:
                self._heard(answer)
                staleness = Staleness.read(answer.headers.get(AGE))
                if aged is not None and staleness.is_old:
                    aged(staleness.seconds)
                # In place: joining parts would need the memory of a big list twice.
                body = bytearray()
                async for chunk in answer.chunks(idle_timeout=self._timeout):
                    body += chunk
                    if len(body) > MAX_PAGE:
                        raise Unreachable(f"{request.target}: a list of over {MAX_PAGE} bytes")
                    if arrived is not None and answer.status < 300:
                        arrived(body)
        except Unreachable as error:
            self._met(evidence_of(error))
            raise
        _check(answer, body)
        self._counters.bytes_received += len(body)
        return body

    async def batches(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]:
        """Whole lines as they come; an empty batch once upstream has accepted, and after each
        `PROGRESS` bytes of a line that goes on."""
        request = Request(
            "GET",
            _target(path, params),
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=(("Accept", "application/json"), ("Accept-Encoding", "identity")),
            connection="fresh",
        )
        async with self._transport.send(request) as answer:
            self._heard(answer)
            if answer.status >= 300:
                _check(answer, await answer.read(limit=1024 * 1024, idle_timeout=self._timeout))
            yield []
            async for lines in answer.batches(progress=PROGRESS):
                self._met(LinkEvidence.ANSWERED)
                self._counters.bytes_received += sum(map(len, lines))
                yield lines

    def _heard(self, answer: Response) -> None:
        """Raises `ApiError` for a page, whatever its status: it is no word of the API server."""
        if is_page(answer.headers.get("Content-Type", "")):
            raise answer.error(b"")
        self._authenticated(answer.status)
        if is_of_api_server(answer.status, answer.headers):
            self._met(LinkEvidence.ANSWERED)


# Seconds; what is there so soon after it is asked for was waiting.
AT_ONCE: Final = 0.001


class Arrivals:
    """When the events of one watch came, at the earliest; of the monotonic clock.

    While the reflector is at work on some events, those that come next wait in the kernel, which
    does not say since when. No event came before the moment that is given for it.
    """

    def __init__(self, now: float) -> None:
        """The reader asks for the first batch at `now`."""
        self._asked_at = self._read_at = now

    def asks(self, now: float) -> None:
        """The reader is done with a batch, and waits for the next one."""
        self._asked_at = now

    def came(self, now: float) -> float:
        """A batch was read: since when it may have been there."""
        was_waiting = now - self._asked_at < AT_ONCE
        came_at = self._read_at if was_waiting else now
        self._read_at = now
        return came_at


def _target(path: str, params: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _check(answer: Response, body: bytes | bytearray) -> None:
    if answer.status >= 300:
        raise answer.error(bytes(body))


# As /status calls the API server.
CLOUD: Final = "cloud"


class Feed(Protocol):
    """Of one stream. `page` and `batches` are those of `UpstreamSource`, of what was chosen last.

    A hub's answer is one of the API server only as long as it is a good one: what else it says ends
    no stream, and is reported to `disappointed`.
    """

    @property
    def link(self) -> LinkVerdict:
        """To what was chosen."""
        ...

    @property
    def answered_at(self) -> float:
        """Wall time of the latest sign of what was chosen."""
        ...

    @property
    def source(self) -> str:
        """`CLOUD`, or the hub's name."""
        ...

    @property
    def is_cloud(self) -> bool: ...

    @property
    def is_wrong(self) -> bool:
        """Whether another source would be chosen now."""
        ...

    def may_ask(self, *, is_up: bool) -> bool:
        """Whether there is anything to ask; `is_up`: the link to upstream, as reported last."""
        ...

    async def choose(self) -> None:
        """Before a list or a watch: from where it comes."""
        ...

    def disappointed(self, *, is_expired: bool = False) -> bool:
        """What was chosen failed, or cannot be believed; `is_expired`: it knows the version no
        more. Whether it was a hub: then the next source is asked at the same version."""
        ...

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray: ...

    def batches(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]: ...


class CloudFeed:
    """Of what no pool shares."""

    is_cloud = True
    is_wrong = False
    source = CLOUD

    def __init__(self, source: UpstreamSource, probe: LinkProbe) -> None:
        self._probe = probe
        self.link: LinkVerdict = probe.link
        self.page = source.page
        self.batches = source.batches

    @property
    def answered_at(self) -> float:
        return self._probe.answered_at

    def may_ask(self, *, is_up: bool) -> bool:
        return is_up

    async def choose(self) -> None:
        """There is one."""

    def disappointed(self, *, is_expired: bool = False) -> bool:
        return False


READYZ: Final = "/readyz"
GROUPS: Final = "/apis"
# Seconds from when upstream is ready until what it refuses counts.
SETTLED: Final = 1.0
# Seconds after which it counts though upstream does not call itself ready: it may never do.
LONGEST_START: Final = 60.0


async def is_ready(feed: Feed) -> bool:
    """False also where there is no answer."""
    try:
        await feed.page(READYZ, {})
    except ApiError as error:
        # What else it is answered with is not about being ready.
        return error.status < HTTPStatus.INTERNAL_SERVER_ERROR
    except Unreachable:
        return False
    return True


async def serves_groups(feed: Feed) -> bool:
    """Whether the API server itself answers. The plain text of a 404 is its own where it does not
    serve a resource, or else of a gateway that does not reach it."""
    try:
        found = json.loads(await feed.page(GROUPS, {}))
    except (ApiError, Unreachable, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == "APIGroupList"
