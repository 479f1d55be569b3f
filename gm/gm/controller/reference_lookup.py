"""What an object refers to, and since when it misses what is not there.

Owns when a reference counts as missing: GM has not seen it for PATIENCE, and then the API server,
asked for it by name, says that there is none. Until then it is awaited: objects of one manifest
are created one after the other, and the stream of one kind comes later than that of another.
Guarantees: one request for each reference that an object misses, after which the streams are
believed; what the answer shows is used, whether the stream has it or not. Of Secrets, which no
stream has, the `SecretLookup` knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from edge_sidecars.kubeapi import ApiClient, ApiError, NotFound
from edge_sidecars.kubeapi.client import JSON
from edge_sidecars.kubeapi.reflector import METADATA_ONLY
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import kind_of
from gm.cache.informers import Informers
from gm.controller.secret_lookup import SecretLookup
from gm.core.engine.engine import references
from gm.core.engine.plan import NODE, SECRET
from gm.core.kinds.registry import KINDS

NODES: Final = "/api/v1/nodes"
# Seconds. A stream that broke is opened again after 8 s at most (`runtime/backoff.py`), and who
# applies two files takes a few.
PATIENCE: Final = 10.0


@dataclass(slots=True)
class MissedReferences:
    """Of one object: `since` when it misses each, on CLOCK_BOOTTIME; `absent`: of these, the ones
    that the API server does not have."""

    since: dict[ObjectKey, float] = field(default_factory=dict)
    absent: set[ObjectKey] = field(default_factory=set)

    def keep(self, found: Mapping[ObjectKey, Json | None], now: float) -> None:
        """Forget those that are there, or that the object names no more."""
        self.since = {k: self.since.get(k, now) for k, it in found.items() if it is None}
        self.absent &= self.since.keys()

    def is_due(self, key: ObjectKey, now: float) -> bool:
        """Whether the API server is to be asked for it."""
        return key not in self.absent and now - self.since.get(key, now) >= PATIENCE

    def awaited(self, now: float) -> dict[ObjectKey, float]:
        """Those that may be there in a moment, each with the seconds until it is asked for."""
        waiting = self.since.keys() - self.absent
        return {key: max(PATIENCE - (now - self.since[key]), 0.0) for key in waiting}


class ReferenceLookup:
    """Asks the informers, and in the end `api`."""

    def __init__(
        self, api: ApiClient, informers: Informers, secrets: SecretLookup, *, timeout: float
    ) -> None:
        self._api = api
        self._informers = informers
        self._secrets = secrets
        self._timeout = timeout

    async def find(
        self, document: Document, tree: Json, missed: MissedReferences
    ) -> Mapping[ObjectKey, Json | None]:
        """What is referred to by what was found may lead further. None: not there, or awaited.
        Raises `ApiError`, `Unreachable`."""
        kind = KINDS[document.kind]
        now = boottime()
        found: dict[ObjectKey, Json | None] = {}
        while further := references(kind, tree, found) - found.keys():
            for key in further:
                found[key] = await self._known(key, document)
                if found[key] is None and missed.is_due(key, now):
                    found[key] = await self._asked(key, document)
                    if found[key] is None:
                        missed.absent.add(key)
        missed.keep(found, now)
        return found

    def forget(self) -> None:
        """This GM decides no more."""
        self._secrets.forget()

    async def _known(self, key: ObjectKey, document: Document) -> Json | None:
        if key.kind == SECRET:
            return await self._secrets.get(key, document)
        return self._informers.reference(key)

    async def _asked(self, key: ObjectKey, document: Document) -> Json | None:
        """None: there is none, or GM may not know."""
        if key.kind == SECRET:
            return await self._secrets.ask_again(key)
        is_node = key.kind == NODE
        path = f"{NODES}/{key.name}" if is_node else kind_of(key.kind).path(key.namespace, key.name)
        accept = METADATA_ONLY if is_node else JSON
        try:
            raw = await self._api.fetch(
                "GET", path, timeout=self._timeout, accept=accept, pooled=True
            )
        except NotFound:
            return None
        except ApiError as error:
            if error.status != 403:
                raise
            logger.warning(
                "a reference may not be read",
                extra=fields(object=str(document.key), reference=str(key), why=str(error)),
            )
            return None
        there = Document.parse(raw, key.kind)
        self._informers.learned(there)
        return there.json()
