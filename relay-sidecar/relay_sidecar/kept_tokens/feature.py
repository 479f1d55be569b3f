"""The door: with `--keep-secrets` on a node, answers to TokenRequest are kept.

A TokenRequest is passed on as every write is; where upstream gives no answer, it is the one write
that is answered from the cache, with the very bytes of an earlier answer (`kept_answers`).
"""

import time
from collections.abc import Iterable, Sequence
from typing import Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused
from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, OpenedAccess
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.core.token_request import (
    MAX_BODY,
    TokenRequestKey,
    token_request_key,
)
from relay_sidecar.features import Hooks, Parts, Rows
from relay_sidecar.journal.sealing.sealed_secrets import TOKENS
from relay_sidecar.kept_tokens.kept_answers import Refuse, Replay, TokenAnswer
from relay_sidecar.kept_tokens.kept_tokens import KeptTokens
from relay_sidecar.streams.stream import Stream
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


async def open_room(parts: Parts) -> Hooks:
    config, access, streams = parts.config, parts.access, parts.streams
    assert parts.sealer is not None
    assert access.clock is not None
    kept = KeptTokens(
        parts.journal,
        parts.sealer,
        access.clock,
        streams.counters,
        retain=config.retain,
        issued=access.issued,
    )
    await kept.restore(parts.saved.kept.get(TOKENS, {}))
    requests = TokenRequests(parts.proxy, kept, timeout=config.request_timeout)

    def pods() -> Stream:
        return streams.open(pods_of(access.node), now=time.monotonic())

    return Hooks(
        answer=requests.answer,
        tokens=kept,
        link=kept.link,
        size=lambda: kept.size,
        status=lambda: {"tokens": [token_row(key) for key in kept]},
        restart=lambda: {"callers": token_callers(kept.tokens(), access)},
        run=[lambda: kept.run(pods)],
    )


def token_row(key: TokenRequestKey) -> Rows:
    """For what an answer is kept; nothing of the answer."""
    pod = key.bound_object_ref
    return {
        "namespace": key.namespace,
        "serviceAccount": key.service_account,
        "podName": pod.name if pod else "",
        "podUID": key.pod_uid,
        "audiences": list(key.audiences),
        "expirationSeconds": key.expiration_seconds,
    }


def token_callers(
    tokens: Iterable[tuple[TokenRequestKey, str]], access: OpenedAccess
) -> Sequence[Rows]:
    """Pods whose tokens are kept, and the reads that upstream allowed each with its token, like
    "watch services": the relay answers these also after a restart while it is cut off. `hasRead`:
    the pod has read something since the relay started."""
    return [
        {
            "namespace": key.namespace,
            "serviceAccount": key.service_account,
            "podUID": key.pod_uid,
            "rights": list(access.rights(token)),
            "hasRead": access.has_read(token),
        }
        for key, token in tokens
    ]
