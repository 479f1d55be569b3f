"""The HTTP answers about shards (docs/reference/shards.md).

Guarantees: Ownership is computed from a clock that is read after the request was parsed and after
the last await of the handler (S1). Every validity that an answer to the main tells is remembered
before the answer is built, and no shard becomes free before it has passed or was confirmed (S6).
"""

import json as to_json
from collections.abc import Callable
from dataclasses import dataclass

from edge_sidecars.apimachinery.selection.shard_ranges import shard_of
from edge_sidecars.runtime.cli.values import BadInput, whole
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.web import aiohttp_web as web
from edge_sidecars.runtime.web.endpoints import Route, json, query, text
from elector_sidecar.core.lease import pod_name
from elector_sidecar.elector import Elector
from elector_sidecar.shards.document import shards_json
from elector_sidecar.shards.machine import ShardMachine
from elector_sidecar.web.document_stream import follow
from elector_sidecar.web.wait_limit import RENEWAL_POLL, WaitLimit, full, truth, wait_seconds
from elector_sidecar.web.wait_limit import named_seconds as seconds

VALID_UNTIL_HEADER = "X-Shard-Valid-Until"
FENCING_TOKEN_HEADER = "X-Shard-Fencing-Token"


@dataclass(frozen=True)
class OwnedCondition:
    """What /owns is asked for: a shard, and seconds of validity; `token`: of that acquisition."""

    shard: int
    min_remaining: float | None
    wait: float
    token: int | None


class ShardEndpoints:
    def __init__(
        self,
        machine: ShardMachine,
        elector: Elector,
        limit: Callable[[web.BaseRequest], WaitLimit],
        *,
        promises: bool,
    ) -> None:
        """`limit`, `promises`: as for `ElectorEndpoints`."""
        self._elector = elector
        self._limit = limit
        self._promises = promises
        self._shards = machine.shards
        self._routes: dict[str, Route] = {
            "/shards": ("GET", self.shards),
            "/owns": ("GET", self.owns),
        }

    def route(self, path: str) -> Route | None:
        if released_shard(path) is not None:
            return "POST", self.released
        return self._routes.get(path)

    def shown(self, now: float) -> bytes:
        return self._document(now, tells=False)

    async def shards(self, request: web.BaseRequest) -> web.StreamResponse:
        given = query(request, "watch", "promise")
        tells = truth("promise", given.get("promise", "true")) and self._promises
        if tells:
            self._elector.promised.asked(request)
        if truth("watch", given.get("watch", "false")) and request.method == "GET":
            limit = self._limit(request)
            with limit.place() as is_there:
                if not is_there:
                    return full(limit)
                return await follow(
                    self._elector, request, lambda now: self._document(now, tells=tells)
                )
        return json(self._document(boottime(), tells=tells))

    def _document(self, now: float, *, tells: bool) -> bytes:
        view = self._shards.view(now)
        if tells and view.valid_until is not None:
            self._shards.tell(now, [it.shard for it in view.owned], view.valid_until)
        reason = self._elector.lease_reason(now)
        return shards_json(view, now=now, identity=self._elector.identity, reason=reason)

    async def owns(self, request: web.BaseRequest) -> web.StreamResponse:
        condition = self._condition(request)
        if condition.min_remaining is not None and self._promises:
            self._elector.promised.asked(request)
        if not condition.wait:
            return await self._owned(condition)
        limit = self._limit(request)
        with limit.place() as is_there:
            return await self._owned(condition) if is_there else full(limit)

    async def _owned(self, condition: OwnedCondition) -> web.StreamResponse:
        deadline = boottime() + condition.wait
        while True:
            now = boottime()
            unmet = self._unmet(now, condition)
            if unmet is None:
                return text(200, "ok", self._promised(now, condition))
            if now >= deadline:
                return self._not_owned(condition, unmet)
            is_mine = self._shards.owns(now, condition.shard)
            await self._elector.changed(min(deadline - now, RENEWAL_POLL if is_mine else deadline))

    def _unmet(self, now: float, condition: OwnedCondition) -> str | None:
        """Why the answer is 503; None if it is 200."""
        until = self._shards.valid_until(now)
        if until is None or not self._shards.owns(now, condition.shard):
            reason = self._shards.reason(now) or self._elector.lease_reason(now)
            return reason or f"shard {condition.shard} is not this member's"
        token = self._shards.ownership.shards[condition.shard].fencing_token
        if condition.token not in (None, token):
            return f"acquired anew: the fencing token is {token}, not {condition.token}"
        if until - now < (condition.min_remaining or 0.0):
            return (
                f"only {until - now:.3f}s of validity left, {condition.min_remaining:g}s asked for"
            )
        return None

    def _promised(self, now: float, condition: OwnedCondition) -> dict[str, str]:
        """A bare 200 tells nothing beyond its instant."""
        shard = self._shards.ownership.shards[condition.shard]
        headers = {FENCING_TOKEN_HEADER: str(shard.fencing_token)}
        if condition.min_remaining is not None and self._promises:
            until = now + condition.min_remaining
            self._shards.tell(now, [condition.shard], until)
            headers[VALID_UNTIL_HEADER] = f"{until:.6f}"
        return headers

    def _not_owned(self, condition: OwnedCondition, reason: str) -> web.StreamResponse:
        owner = pod_name(self._shards.owner(condition.shard))
        body = {"shard": condition.shard, "ownerPod": owner, "reason": reason}
        return web.Response(
            status=503,
            body=to_json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )

    def _condition(self, request: web.BaseRequest) -> OwnedCondition:
        given = query(request, "uid", "shard", "min_remaining", "token", "wait")
        if ("uid" in given) == ("shard" in given):
            raise BadInput("/owns needs either uid=U or shard=N")
        count = self._elector.config.shards or 0
        if "uid" in given:
            if not given["uid"]:
                raise BadInput("uid is empty: name the object's metadata.uid")
            shard = shard_of(given["uid"], count)
        else:
            shard = _number("shard", given["shard"])
            if shard >= count:
                raise BadInput(f"shard={shard}: there are {count}, from 0 to {count - 1}")
        least = given.get("min_remaining")
        return OwnedCondition(
            shard=shard,
            min_remaining=None if least is None else seconds("min_remaining", least),
            wait=wait_seconds(given.get("wait", "0")),
            token=_number("token", given["token"]) if "token" in given else None,
        )

    async def released(self, request: web.BaseRequest) -> web.StreamResponse:
        shard = released_shard(request.path)
        count = self._elector.config.shards or 0
        if shard is None or shard >= count:
            return text(404, f"{request.path!r:.80}: there are shards 0 to {count - 1}")
        given = query(request, "token")
        if "token" not in given:
            raise BadInput("token is missing: the fencingToken of the entry of handingOver")
        token = _number("token", given["token"])
        if not self._shards.confirm(boottime(), shard, token):
            return text(409, f"shard {shard} is owned and not being handed over")
        self._elector.wake()
        return text(200, "ok")


def released_shard(path: str) -> int | None:
    """N of /shards/N/released; None for any other path."""
    head, _, rest = path.removeprefix("/").partition("/")
    number, _, tail = rest.partition("/")
    is_number = number.isascii() and number.isdecimal() and len(number) <= 9
    return int(number) if (head, tail) == ("shards", "released") and is_number else None


def _number(name: str, value: str) -> int:
    try:
        return whole(value)
    except BadInput as error:
        raise BadInput(f"{name}: {error}") from error
