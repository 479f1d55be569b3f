"""Secrets that objects name, as metadata: whether they exist, and their annotations.

Owns how long an answer stands. Guarantees: no value of a Secret comes into this process; none is
listed or watched, so that GM needs no right to, and no relay keeps them all.
"""

import msgspec

from gm.log import fields, logger
from kubeapi import ApiError, ApiServer, NotFound
from sedna_api.core.document import Json, ObjectKey
from sidecar.clock import boottime

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
# Seconds; whoever creates a missing one waits, whoever edits an annotation edits the job anyway.
FOUND_FOR = 30.0
MISSING_FOR = 2.0
MAX_KEPT = 1000


class Secrets:
    def __init__(self, api: ApiServer, *, timeout: float) -> None:
        self._api = api
        self._timeout = timeout
        self._known: dict[ObjectKey, tuple[Json | None, float]] = {}

    async def get(self, key: ObjectKey) -> Json | None:
        """None: does not exist, or GM may not read it, which is logged. Raises `ApiError`,
        `Unreachable`."""
        known = self._known.get(key)
        if known is not None and boottime() < known[1]:
            return known[0]
        found = await self._ask(key)
        if len(self._known) >= MAX_KEPT:
            self._known.clear()
        stands_for = FOUND_FOR if found is not None else MISSING_FOR
        self._known[key] = (found, boottime() + stands_for)
        return found

    async def _ask(self, key: ObjectKey) -> Json | None:
        path = f"/api/v1/namespaces/{key.namespace}/secrets/{key.name}"
        try:
            raw = await self._api.fetch(
                "GET", path, timeout=self._timeout, accept=METADATA, kept=True
            )
        except NotFound:
            return None
        except ApiError as error:
            if error.status != 403:
                raise
            logger.warning(
                "a Secret may not be read", extra=fields(object=str(key), why=str(error))
            )
            return None
        metadata: Json = {"metadata": msgspec.json.decode(raw).get("metadata", {})}
        return metadata
