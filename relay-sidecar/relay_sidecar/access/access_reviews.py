"""How upstream is asked about a caller: with that very token, which needs no further rights; about
the relay itself, with its own credential (None in place of a token).

SelfSubjectReview says whose it is (Kubernetes 1.28 and later), SelfSubjectAccessReview what that
user may, SelfSubjectRulesReview what is worth such a question. Nothing is remembered here.
"""

import asyncio
import json
import math
from dataclasses import replace
from typing import Any

import msgspec

from edge_sidecars.kubeapi import (
    ApiError,
    ApiTransport,
    Request,
    Response,
    StaleConnection,
    TooLong,
    Unreachable,
)
from relay_sidecar.core.access.access_rules import ResourceRule, rules_of
from relay_sidecar.core.access.authorizer import Attributes, UserInfo

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
WHAT = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
# More than any review that was answered.
MAX_ANSWER = 1024 * 1024
# At a time: a caller with ever new tokens must not take all descriptors.
MAX_REVIEWS = 32


class Reviews:
    """`timeout` in seconds, of one review. All raise `ApiError` and `Unreachable`."""

    def __init__(self, transport: ApiTransport, *, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout
        self._places = asyncio.Semaphore(MAX_REVIEWS)

    async def who(self, token: str) -> UserInfo:
        status = await self._post(
            WHO,
            token,
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )
        user = status.get("userInfo")
        if not isinstance(user, dict) or not user.get("username"):
            raise Unreachable(f"a SelfSubjectReview without a user: {status!r:.80}")
        extra = user.get("extra") or {}
        return UserInfo(
            name=str(user["username"]),
            uid=str(user.get("uid") or ""),
            groups=tuple(map(str, user.get("groups") or ())),
            extra=tuple(sorted((str(key), tuple(map(str, extra[key]))) for key in extra)),
        )

    async def may(self, token: str | None, attributes: Attributes) -> tuple[bool, str]:
        """Whether it is allowed, and the authorizer's reason."""
        status = await self._post(WHAT, token, attributes.review())
        is_allowed = status.get("allowed") is True
        if not is_allowed and status.get("evaluationError"):
            # kube-apiserver answers 500 then, since nothing was decided.
            raise ApiError(500, "InternalError", str(status["evaluationError"]))
        return is_allowed, str(status.get("reason") or "")

    async def rules(self, token: str, namespace: str) -> list[ResourceRule]:
        """What the user may do in the namespace, as far as upstream can list it."""
        review: dict[str, object] = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        status = await self._post(RULES, token, review)
        try:
            return rules_of(status)
        except msgspec.ValidationError as error:
            raise Unreachable(f"the answer is no review: {error}") from error

    async def _post(
        self, path: str, token: str | None, review: dict[str, object]
    ) -> dict[str, Any]:
        """The review's status."""
        headers = [("Content-Type", "application/json"), ("Accept", "application/json")]
        if token is not None:
            headers.append(("Authorization", f"Bearer {token}"))
        body = json.dumps(review, separators=(",", ":")).encode()
        request = Request(
            "POST",
            path,
            header_timeout=self._timeout,
            connect_timeout=self._timeout,
            headers=headers,
            body=body,
            identity="own" if token is None else "caller",
            is_decoded=True,
            # It changes nothing.
            max_idle=math.inf,
        )
        async with self._places:
            try:
                answer, content = await self._sent(request)
            except StaleConnection:
                answer, content = await self._sent(replace(request, connection="fresh"))
        if answer.status >= 300:
            raise answer.error(content)
        try:
            status = json.loads(content)["status"]
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise Unreachable(f"the answer is no review: {content[:80]!r}") from error
        if not isinstance(status, dict):
            raise Unreachable(f"the answer is no review: {content[:80]!r}")
        return status

    async def _sent(self, request: Request) -> tuple[Response, bytes]:
        async with self._transport.send(request) as answer:
            try:
                return answer, await answer.read(limit=MAX_ANSWER, idle_timeout=self._timeout)
            except TooLong as error:
                raise Unreachable(f"the answer is no review: {error}") from error
