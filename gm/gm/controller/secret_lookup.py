"""Secrets that objects name, as metadata: whether they exist, and their annotations.

Owns how long an answer is valid, and when a missing one is looked for again: after 1, 2, 4, ... 30
s, with one request, however many objects name it; anew from 1 s where one more names it.
Guarantees: no value of a Secret comes into this process; none is listed or watched, so that GM
needs no right to, and no relay keeps them all; no negative answer is valid for longer than until
the next look.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from edge_sidecars.kubeapi import ApiClient, ApiError, NotFound, Unreachable
from edge_sidecars.runtime.clock import boottime, is_set
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# Seconds; an edit of an annotation is an edit of the job anyway.
FOUND_FOR = 30.0
# Seconds between two looks for a missing one.
FIRST_LOOK = 1.0
LONGEST_LOOK = 30.0
MAX_KEPT = 1000


@dataclass(eq=False)
class _Missing:
    """`seekers`: the objects that named it, each with its uid and generation."""

    asked_at: float
    delay: float = FIRST_LOOK
    seekers: set[tuple[str, int]] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class SecretLookup:
    """`changed` is called when one that was missing is found; `is_named`: whether any object still
    names it."""

    def __init__(
        self,
        api: ApiClient,
        *,
        timeout: float,
        is_named: Callable[[ObjectKey], bool],
        changed: Callable[[ObjectKey], None],
    ) -> None:
        self._api = api
        self._timeout = timeout
        self._is_named = is_named
        self._changed = changed
        self._found: dict[ObjectKey, tuple[Json, float]] = {}
        self._missing: dict[ObjectKey, _Missing] = {}
        self._asking: dict[ObjectKey, asyncio.Task[Json | None]] = {}
        self._looks: set[asyncio.Task[None]] = set()

    async def get(self, key: ObjectKey, seeker: Document) -> Json | None:
        """None: does not exist, or GM may not read it, which is logged. Raises `ApiError`,
        `Unreachable`."""
        known = self._found.get(key)
        if known is not None and boottime() < known[1]:
            return known[0]
        missing, who = self._missing.get(key), (seeker.uid, seeker.generation)
        if missing is not None:
            if who in missing.seekers:
                return None
            missing.seekers.add(who)
            # Somebody is at work there: soon again.
            missing.delay = FIRST_LOOK
            missing.woken.set()
            if boottime() - missing.asked_at < FIRST_LOOK:
                return None
        found = await self._ask(key)
        if found is None:
            self._expect(key, who)
        return found

    async def ask_again(self, key: ObjectKey) -> Json | None:
        """Now, without regard to looks that are to come: as `get`."""
        found = await self._ask(key, is_told=True)
        if found is not None and self._missing.pop(key, None) is not None:
            self._changed(key)
        return found

    def forget(self) -> None:
        """This GM decides no more."""
        for look in self._looks:
            look.cancel()
        self._found.clear()
        self._missing.clear()

    def _expect(self, key: ObjectKey, who: tuple[str, int]) -> None:
        missing = self._missing.get(key)
        if missing is None:
            missing = self._missing[key] = _Missing(boottime())
            look = asyncio.create_task(self._look(key, missing), name=f"secret {key}")
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)
        missing.asked_at = boottime()
        missing.seekers.add(who)

    async def _look(self, key: ObjectKey, missing: _Missing) -> None:
        """Until it is there, or no object names it."""
        while self._missing.get(key) is missing:
            await _pause(missing)
            if self._missing.get(key) is not missing:
                return
            if not self._is_named(key):
                del self._missing[key]
                return
            missing.asked_at = boottime()
            try:
                found = await self._ask(key, is_told=True)
            except (ApiError, Unreachable) as error:
                logger.debug("a Secret is not known", extra=fields(object=str(key), why=str(error)))
                continue
            if found is not None and self._missing.get(key) is missing:
                del self._missing[key]
                logger.info("a missing Secret is there", extra=fields(object=str(key)))
                self._changed(key)

    async def _ask(self, key: ObjectKey, *, is_told: bool = False) -> Json | None:
        """With one request for all that ask at a time."""
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._fetch(key, is_told=is_told))
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        found = await asyncio.shield(asking)
        if found is not None:
            if len(self._found) >= MAX_KEPT:
                self._found.clear()
            self._found[key] = (found, boottime() + FOUND_FOR)
        return found

    async def _fetch(self, key: ObjectKey, *, is_told: bool) -> Json | None:
        path = f"/api/v1/namespaces/{key.namespace}/secrets/{key.name}"
        try:
            raw = await self._api.fetch(
                "GET", path, timeout=self._timeout, accept=METADATA, pooled=True
            )
        except NotFound:
            return None
        except ApiError as error:
            if error.status != 403:
                raise
            level = logger.debug if is_told else logger.warning
            level("a Secret may not be read", extra=fields(object=str(key), why=str(error)))
            return None
        metadata: Json = {"metadata": msgspec.json.decode(raw).get("metadata", {})}
        return metadata


async def _pause(missing: _Missing) -> None:
    """Until the next look is due; who comes meanwhile makes it due a second after the last."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (left := began + missing.delay - loop.time()) > 0:
        missing.woken.clear()
        if not await is_set(missing.woken, within=left):
            break
    missing.delay = min(2 * missing.delay, LONGEST_LOOK)
