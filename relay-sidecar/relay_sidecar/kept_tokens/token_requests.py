"""TokenRequest: passed on as every write, and the one that is answered from what was kept.

The very bytes of an earlier answer, where upstream gives none at all: `core`.
"""

from typing import Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER
from relay_sidecar.core.token_request import (
    MAX_BODY,
    TokenRequestKey,
    token_request_key,
)
from relay_sidecar.kept_tokens.core.kept_answers import Refuse, Replay, TokenAnswer
from relay_sidecar.kept_tokens.kept_tokens import KeptTokens
from relay_sidecar.upstream.messages import BufferedResponse, ClientRequest, upload_of


class TokenUpstream(Protocol):
    @property
    def is_up(self) -> bool: ...

    async def ask(self, asked: ClientRequest, body: bytes) -> BufferedResponse:
        """The whole answer. Raises `Unreachable`."""
        ...


class TokenRequests:
    """`timeout`, in seconds: so long upstream has to begin its answer."""

    def __init__(self, upstream: TokenUpstream, kept: KeptTokens, *, timeout: float) -> None:
        self._upstream = upstream
        self._kept = kept
        self._timeout = timeout

    def _takes(self, request: web.BaseRequest, info: RequestInfo) -> bool:
        return (
            info.is_canonical
            and (info.verb, info.subresource) == ("create", "token")
            and (info.resource.group, info.resource.plural) == ("", "serviceaccounts")
            and (request.content_length or 0) <= MAX_BODY
            and not any(name.lower().startswith("impersonate-") for name in request.headers)
        )

    async def answer(
        self, request: web.BaseRequest, info: RequestInfo
    ) -> web.StreamResponse | None:
        """None to what is no TokenRequest of which an answer may be kept. Raises `Refused`."""
        if not self._takes(request, info):
            return None
        upload = upload_of(request)
        body = b"" if upload is None else await upload.whole(limit=MAX_BODY)
        key = _key(request, info, body)
        is_this_node = request[CALLER].is_node
        decision = await self._kept.requested(
            key, is_this_node=is_this_node, is_link_up=self._upstream.is_up
        )
        match decision:
            case Replay() | Refuse():
                return _answer(decision)
        # Upstream signs a token and stores nothing. Each pod asks once an hour or more often: over
        # the connection by which kubelet renews its Lease, mostly.
        asked = ClientRequest(request, None, self._timeout, changes_nothing=True)
        try:
            answer = await self._upstream.ask(asked, body)
        except Unreachable:
            return _answer(await self._kept.unanswered(key, is_this_node=is_this_node))
        if key is not None:
            content_type = answer.headers.get(hdrs.CONTENT_TYPE, "")
            await self._kept.answered(
                key,
                TokenAnswer(content_type=content_type, body=answer.content),
                status=answer.status,
                is_this_node=is_this_node,
            )
        return await answer.send(request)


def _key(request: web.BaseRequest, info: RequestInfo, body: bytes) -> TokenRequestKey | None:
    return token_request_key(
        info.namespace,
        info.name,
        query=info.query,
        content_type=request.headers.get(hdrs.CONTENT_TYPE, ""),
        accept=request.headers.get(hdrs.ACCEPT, ""),
        body=body,
    )


def _answer(decision: Replay | Refuse) -> web.StreamResponse:
    match decision:
        case Refuse(status):
            raise Refused(status)
        case Replay(answer):
            return web.Response(
                status=201,
                body=answer.body,
                headers={hdrs.CONTENT_TYPE: answer.content_type},
            )
