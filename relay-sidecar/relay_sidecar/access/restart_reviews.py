"""What callers on a node may read when they start again, asked about before they do.

A client whose watch is open asks for nothing else as long as it runs; after a reboot it lists, and
gets its own pod and node. What it asked for at its first start is remembered (`token_families`),
but not in a journal that began anew since, and not of a relay that came later than the client. So
upstream is asked by the relay itself, with the caller's token: about the LIST of what the caller
watches and the WATCH of what it lists, and, for a component that the node needs in order to have
pods, about all that it may read. Its token is asked about as soon as this node is issued it, before
its pod brings it.

Guarantees: nothing is allowed by this that upstream did not allow to that token; few tokens are
asked about at a time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiError, Unreachable
from edge_sidecars.runtime.clock import boottime
from relay_sidecar.access.caller import CallerAccess
from relay_sidecar.core.access.access_rules import ResourceRule, questions
from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.access.node_components import is_node_component
from relay_sidecar.core.access.token_families import TokenFamily, family_of

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
