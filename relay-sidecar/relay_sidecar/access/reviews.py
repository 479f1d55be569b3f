"""How upstream is asked about callers, and about those of a node before they start again.

Each question carries the caller's own token and needs no further rights: SelfSubjectReview (1.28
and later), SelfSubjectAccessReview, SelfSubjectRulesReview; None in place of a token is the relay.
After a reboot a client lists what it only watched before. So upstream is asked, with its token,
about the LIST of what it watches, the WATCH of what it lists and, for a component that the node
needs, about all that it may read. Guarantees: nothing is allowed by this that upstream did not
allow to that token; few tokens are asked about at a time.
"""

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import (
    ApiError,
    ApiTransport,
    Request,
    Response,
    StaleConnection,
    TooLong,
    Unreachable,
)
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.access.caller import CallerAccess
from relay_sidecar.core.access.authorizer import (
    Attributes,
    ResourceRule,
    UserInfo,
    questions,
    rules_of,
)
from relay_sidecar.core.access.node_identity import is_node_component
from relay_sidecar.core.access.token_families import TokenFamily, family_of

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


# Tokens that are asked about at a time: requests of clients go first.
MAX_TOKENS: Final = 2
# Tokens and families of tokens of which it is remembered that they were asked about.
MAX_REVIEWED: Final = 2048
# Seconds until the rules of one that belongs to no pod are asked for again.
LIFE: Final = 3600.0
# Seconds until a token is asked about again that upstream did not decide on: at first, and at most.
RETRY, LAST_RETRY = 2.0, 120.0
_ACCOUNT: Final = "system:serviceaccount:"


class RulesReviewer(Protocol):
    async def rules(self, token: str, namespace: str) -> list[ResourceRule]:
        """Raises `ApiError` and `Unreachable`."""
        ...


class RestartReviews:
    """`known`: the resources of which the relay has something."""

    def __init__(
        self,
        callers: CallerAccess,
        reviewer: RulesReviewer,
        known: Callable[[], Iterable[ResourceName]],
    ) -> None:
        self._callers = callers
        self._reviewer = reviewer
        self._known = known
        self._places = asyncio.Semaphore(MAX_TOKENS)
        # When (boot clock) each was asked about: the family of a token, or a token without one.
        self._reviewed: OrderedDict[TokenFamily | str, float] = OrderedDict()

    def allowed(self, token: str, attributes: Attributes) -> None:
        """Upstream allowed that to a caller, who reads it now."""
        counterpart = attributes.counterpart()
        if counterpart is not None and self._callers.is_due(token, counterpart):
            key = ("counterpart", token, counterpart)
            self._callers.begin(key, partial(self._review, token, counterpart))
        self._begin(token)

    def issued(self, token: str) -> None:
        """This node got the token."""
        if not self._callers.user(token):
            self._begin(token)

    def _begin(self, token: str) -> None:
        family = family_of(token)
        if not is_node_component(self._callers.user(token) or (family.user if family else "")):
            return
        key = family or token
        now, before = boottime(), self._reviewed.get(key)
        if before is not None and (family is not None or now - before < LIFE):
            return
        self._reviewed[key] = now
        self._reviewed.move_to_end(key)
        while len(self._reviewed) > MAX_REVIEWED:
            self._reviewed.popitem(last=False)
        self._callers.begin(("rules", token), partial(self._ask, token))

    async def _ask(self, token: str) -> None:
        """Again where upstream did not decide."""
        delay = RETRY
        while not await self._has_asked(token):
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY)

    async def _has_asked(self, token: str) -> bool:
        async with self._places:
            try:
                user = await self._callers.identify(token)
                namespace = user.removeprefix(_ACCOUNT).partition(":")[0]
                if not user.startswith(_ACCOUNT):
                    return True
                rules = await self._reviewer.rules(token, namespace)
            except Unreachable:
                return False
            except ApiError as error:
                # Without the API for it, or with a token that is refused, nothing can be asked.
                return error.is_refusal and error.status != 429
            for attributes in questions(rules, self._known(), namespace=namespace):
                if not await self._is_decided(token, attributes, namespace):
                    return False
            return True

    async def _is_decided(self, token: str, attributes: Attributes, namespace: str) -> bool:
        """A rule that does not hold in all namespaces may hold in the account's own."""
        allowed = await self._callers.review(token, attributes)
        if allowed is False and not attributes.namespace:
            allowed = await self._callers.review(token, attributes.within(namespace))
        return allowed is not None

    async def _review(self, token: str, attributes: Attributes) -> None:
        await self._callers.review(token, attributes)
