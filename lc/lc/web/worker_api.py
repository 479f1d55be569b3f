"""What workers, kubelet, Prometheus and people ask of LC over HTTP.

`POST /w/{capability}/sedna/workers/{name}/info` is Sedna's path below the LC_SERVER of a worker,
answered when the report is durable: 200. 400 for what cannot be used. 403 where the capability is
not that of the worker that the report names. 404 where its object is unknown here and has been for
too long. 503 while the disk does not take it, which the worker is to repeat. `/livez`, `/readyz`,
`/metrics`, `/status`, `/sedna/objects` read, and `/` is a page for browsers.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from edge_sidecars.runtime.formats.media_type import media_type
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.cross_site import JSON, not_utf8
from edge_sidecars.runtime.web.endpoints import READS, metrics, options, served
from edge_sidecars.runtime.web.page.asked import Page
from edge_sidecars.sedna_api.core.api_object import ObjectKey
from edge_sidecars.sedna_api.core.report import MalformedReport
from lc.core.worker_info import UNFORESEEN, UnusableReport, WorkerInfo
from lc.status import LcStatus
from lc.store import Store, StoreUnavailable
from lc.web.authentication import sedna_answer
from lc.workers.authorization import KeyNotHere, NotAuthorized, WorkerAuthorization
from lc.workers.managers import ObjectManagers
from lc.workers.unknown_jobs import UnknownJobReports

# Bytes; a report carries at most 64 KiB of it further.
MAX_BODY = 256 * 1024
# Bytes of all bodies that are on their way: more at a time is no worker's doing.
MAX_BODIES = 16 * 1024 * 1024
# Seconds in which a body must have come.
BODY_TIMEOUT = 30.0
# Seconds after which a worker is to repeat what the disk did not take; Sedna's library waits 3.
RETRY_AFTER = "3"

_INFO = re.compile(r"(?:/w/([A-Za-z0-9_-]{1,128}))?/sedna/workers/([^/]+)/info/?")
_JSON = msgspec.json.Decoder()

Answer = Callable[[], web.Response]


class RequestRefused(Exception):
    """An answer other than 200, with its text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class WorkerApi:
    """`authorization` says whose word counts; `answered` counts what workers were answered, by
    status; `lc_status` and `measured`: LC's present state."""

    def __init__(
        self,
        store: Store,
        managers: ObjectManagers,
        unknown_jobs: UnknownJobReports,
        authorization: WorkerAuthorization,
        *,
        lc_status: Callable[[], LcStatus],
        measured: Callable[[], list[Metric]],
    ) -> None:
        self.answered: Counter[int] = Counter()
        self._store = store
        self._managers = managers
        self._unknown_jobs = unknown_jobs
        self._authorization = authorization
        self._lc_status = lc_status
        self._measured = measured
        self._bodies = 0
        self._page = Page("lc", lambda: msgspec.json.encode(lc_status()))
        self._reads: dict[str, Answer] = {
            "/livez": self._ok,
            "/readyz": self._ok,
            "/metrics": self._metrics,
            "/status": self._status,
            "/sedna/objects": self._objects,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if (garbled := not_utf8(request)) is not None:
            return sedna_answer(400, garbled)
        if self._page.has(request):
            return await served(request, ("GET", self._page.answer))
        worker = _INFO.fullmatch(request.path)
        if worker is not None:
            if request.method != "POST":
                return _not_allowed(request, "POST")
            return await self._info(request, unquote(worker[2]), worker[1] or "")
        read = self._reads.get(request.path)
        if read is None:
            paths = ", ".join(("/w/{capability}/sedna/workers/{name}/info", *self._reads))
            return sedna_answer(404, f"unknown path {request.path!r:.120}: there are {paths}")
        allowed = ", ".join(READS)
        if request.method not in READS:
            return _not_allowed(request, allowed)
        return options(read(), allowed) if request.method == "OPTIONS" else read()

    async def _info(self, request: web.BaseRequest, worker: str, capability: str) -> web.Response:
        try:
            _check_type(request)
            body = _parsed(await self._body(request))
            await self._take(WorkerInfo.parse(body, capability=capability), worker)
        except RequestRefused as refusal:
            answer = sedna_answer(refusal.status, str(refusal))
            if refusal.status == 503:
                answer.headers["Retry-After"] = RETRY_AFTER
        except NotAuthorized as error:
            answer = sedna_answer(403, str(error))
        except KeyNotHere as error:
            answer = sedna_answer(503, str(error))
            answer.headers["Retry-After"] = RETRY_AFTER
        except (UnusableReport, MalformedReport) as error:
            answer = sedna_answer(400, str(error))
        except UNFORESEEN as error:
            logger.exception("a report cannot be worked on", extra=fields(worker=worker))
            answer = sedna_answer(400, f"it cannot be used: {type(error).__name__}")
        except StoreUnavailable as error:
            answer = sedna_answer(503, f"not taken, say it again: {error}")
            answer.headers["Retry-After"] = RETRY_AFTER
        else:
            answer = sedna_answer(200, "OK")
        self.answered[answer.status] += 1
        if answer.status != 200:
            logger.debug("worker refused", extra=fields(worker=worker, status=answer.status))
        return answer

    async def _take(self, info: WorkerInfo, worker: str) -> None:
        if info.name != worker:
            raise UnusableReport(
                f"the path names worker {worker!r:.80}, the body {info.name!r:.80}"
            )
        self._authorization.check_presence(info)
        manager = self._managers.handling(info.owner_kind)
        if manager is None:
            # Sedna answers so as well: workers of these kinds have nothing to tell GM.
            return
        key = ObjectKey(info.owner_kind, info.namespace, info.owner_name)
        document = self._store.get(key)
        if document is not None and not self._unknown_jobs.holds(key):
            self._authorization.check(info, document)
            await manager.worker_reported(info, document)
            return
        info.check_names()
        manager.check(info)
        if not await self._unknown_jobs.keep(key, info):
            raise RequestRefused(
                404, f"{key} is not known on this node, and is not waited for any more"
            )

    async def _body(self, request: web.BaseRequest) -> bytes:
        """Raises `RequestRefused`; what all of them hold together is bounded."""
        found = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT):
                async for chunk in request.content.iter_any():
                    found += chunk
                    self._bodies += len(chunk)
                    if len(found) > MAX_BODY:
                        raise RequestRefused(413, f"the body is longer than {MAX_BODY} bytes")
                    if self._bodies > MAX_BODIES:
                        raise RequestRefused(503, "too many bodies are on their way: say it again")
        except TimeoutError as error:
            raise RequestRefused(408, f"the body did not come within {BODY_TIMEOUT:g}s") from error
        finally:
            self._bodies -= len(found)
        return bytes(found)

    def _ok(self) -> web.Response:
        return web.Response(text="ok\n")

    def _metrics(self) -> web.Response:
        return metrics(self._measured())

    def _status(self) -> web.Response:
        return _json(200, self._lc_status())

    def _objects(self) -> web.Response:
        return _json(200, {"objects": self._lc_status().objects})


def _check_type(request: web.BaseRequest) -> None:
    """What a web page may send without asking first is none of it. Raises `RequestRefused`."""
    kinds = request.headers.getall("Content-Type", [])
    if list(map(media_type, kinds)) != [JSON]:
        named = ", ".join(f"{it!r:.80}" for it in kinds) or "that is missing"
        raise RequestRefused(415, f"Content-Type {named}: send {JSON}")


def _parsed(body: bytes) -> object:
    """Raises `RequestRefused`."""
    try:
        return _JSON.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, f"the body is no JSON: {error}") from error


def _not_allowed(request: web.BaseRequest, allowed: str) -> web.Response:
    refusal = sedna_answer(405, f"{request.method:.20} is not allowed on {request.path:.120}")
    refusal.headers["Allow"] = allowed
    return refusal


def _json(status: int, value: object) -> web.Response:
    headers = {"Content-Type": "application/json"}
    return web.Response(status=status, body=msgspec.json.encode(value), headers=headers)
