"""The door: with `--client-ca-file`, the relay requests what the components of its node need.

Single objects and tokens are requested with the node's identity. Guarantees: one whole answer, or
`Unreachable`; each answer of an API server is evidence that the link is there, each failure that it
may not be.
"""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.kubeapi import (
    ApiTransport,
    Request,
    Response,
    StaleConnection,
    TooLong,
    Unreachable,
)
from relay_sidecar.core.link import LinkEvidence, is_of_api_server
from relay_sidecar.core.node_needs import pods_of
from relay_sidecar.core.token_request import (
    API_VERSION,
    JSON,
    KIND,
    MAX_BODY,
    TokenRequestKey,
)
from relay_sidecar.features import Hooks, Parts
from relay_sidecar.upstream.failures import evidence_of
from relay_sidecar.upstream.node_objects import NodeObjects

# Bytes of one object: etcd's limit of a request is 1.5 MiB.
MAX_OBJECT: Final = 4 * 1024 * 1024
_ACCOUNTS: Final = ResourceName("", "v1", "serviceaccounts")


class NodeSource:
    """`timeout` in seconds; `met` is called with what each request met with, `authenticated` with
    the status of each answer."""

    def __init__(
        self,
        transport: ApiTransport,
        *,
        timeout: float,
        met: Callable[[LinkEvidence], None],
        authenticated: Callable[[int], None],
    ) -> None:
        self._transport = transport
        self._timeout = timeout
        self._met = met
        self._authenticated = authenticated

    async def get(self, path: str) -> bytes:
        """Raises `ApiError` and `Unreachable`."""
        request = self._request("GET", path, [("Accept", JSON)], None)
        answer, body = await self._sent(request, limit=MAX_OBJECT)
        if answer.status >= 300:
            raise answer.error(body)
        return body

    async def token(self, key: TokenRequestKey) -> tuple[int, str, bytes]:
        """The answer to a TokenRequest: status, Content-Type, body. Raises `Unreachable`."""
        path = f"{ListScope(_ACCOUNTS, key.namespace).path}/{key.service_account}/token"
        headers = [("Content-Type", JSON), ("Accept", key.content_type)]
        answer, body = await self._sent(
            self._request("POST", path, headers, _token_request(key)), limit=MAX_BODY
        )
        return answer.status, answer.headers.get("Content-Type", ""), body

    def _request(
        self, method: str, path: str, headers: list[tuple[str, str]], body: bytes | None
    ) -> Request:
        return Request(
            method,
            path,
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=headers,
            body=body,
            is_decoded=True,
            # A TokenRequest changes nothing: a second one does no harm.
            max_idle=math.inf,
        )

    async def _sent(self, request: Request, *, limit: int) -> tuple[Response, bytes]:
        try:
            try:
                return await self._answer(request, limit=limit)
            except StaleConnection:
                return await self._answer(replace(request, connection="fresh"), limit=limit)
        except Unreachable as error:
            self._met(evidence_of(error))
            raise
        except TooLong as error:
            raise Unreachable(f"{request.target}: {error}") from error

    async def _answer(self, request: Request, *, limit: int) -> tuple[Response, bytes]:
        async with self._transport.send(request) as answer:
            self._authenticated(answer.status)
            if is_of_api_server(answer.status, answer.headers):
                self._met(LinkEvidence.ANSWERED)
            return answer, await answer.read(limit=limit, idle_timeout=self._timeout)


def _token_request(key: TokenRequestKey) -> bytes:
    bound = key.bound_object_ref
    spec: dict[str, object] = {"audiences": list(key.audiences)}
    if key.expiration_seconds is not None:
        spec["expirationSeconds"] = key.expiration_seconds
    if bound is not None:
        spec["boundObjectRef"] = {
            "kind": bound.kind,
            "apiVersion": bound.api_version,
            "name": bound.name,
            "uid": bound.uid,
        }
    request = {"apiVersion": API_VERSION, "kind": KIND, "spec": spec}
    return json.dumps(request, separators=(",", ":")).encode()


async def open_room(parts: Parts) -> Hooks:
    node, streams = parts.access.node, parts.streams
    source = NodeSource(
        parts.transport,
        timeout=parts.config.request_timeout,
        met=parts.probe.met,
        authenticated=parts.probe.authenticated,
    )

    async def remember(resource: ResourceName, item: Item, asked_at: float) -> None:
        records = streams.seen.remember(
            resource, item, at=asked_at, asked_at=asked_at, is_of_node=True
        )
        if records:
            await parts.journal.commit(*records)

    tokens = parts.features.tokens
    fetched = NodeObjects(node, pods_of(node), streams, source, remember, tokens)
    return Hooks(run=[fetched.run])
