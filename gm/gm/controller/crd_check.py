"""Whether the API keeps what GM counts on: `status.appliedReports` of each kind, and NodeReports.

Owns the look at the API server's OpenAPI document, once at the start, and the refusal to run
without: a report that was taken in and forgotten would be taken in again for ever (G3). Sedna's own
CRDs do not have the field; ours do. Guarantees: no tree is made of the document.
"""

import msgspec

from edge_sidecars.kubeapi import ApiClient, ApiError, NotFound
from edge_sidecars.sedna_api.core.kinds import (
    API_VERSION,
    GROUP,
    KINDS,
    NODE_REPORT,
    VERSION,
    ResourceKind,
)
from edge_sidecars.sedna_api.core.stored_report import APPLIED_REPORTS

PATH = f"/openapi/v3/apis/{API_VERSION}"
_PRESERVES = "x-kubernetes-preserve-unknown-fields"


class UnfitDefinitions(Exception):
    """CRDs that would lose reports; the message says which and what to do."""


class MissingDefinitions(Exception):
    """CRDs that are not there, yet."""


class _Schema(msgspec.Struct):
    properties: dict[str, msgspec.Raw] = {}
    names: list[dict[str, str]] = msgspec.field(
        name="x-kubernetes-group-version-kind", default_factory=list
    )


class _StatusSchema(msgspec.Struct):
    properties: dict[str, msgspec.Raw] = {}
    preserves: bool = msgspec.field(name=_PRESERVES, default=False)


class _Components(msgspec.Struct):
    schemas: dict[str, _Schema] = {}


class _Document(msgspec.Struct):
    components: _Components = msgspec.field(default_factory=_Components)


_DOCUMENT = msgspec.json.Decoder(_Document)
_STATUS = msgspec.json.Decoder(_StatusSchema)


def judge(document: bytes) -> None:
    """Of an OpenAPI v3 document of the API group. Raises `UnfitDefinitions`,
    `MissingDefinitions`."""
    try:
        schemas = _DOCUMENT.decode(document).components.schemas.values()
        found = {name["kind"]: it for it in schemas for name in it.names if _is_ours(name)}
        missing = [it.kind for it in (*KINDS, NODE_REPORT) if it.kind not in found]
        if missing:
            raise MissingDefinitions(f"{', '.join(missing)} of {API_VERSION}: apply manifests/crds")
        unfit = [it.kind for it in KINDS if not _keeps(found[it.kind], it)]
    except msgspec.MsgspecError as error:
        raise MissingDefinitions(f"no OpenAPI document: {error}") from error
    if unfit:
        raise UnfitDefinitions(
            f"the CRDs of {', '.join(unfit)} lose status.{APPLIED_REPORTS}, so that reports would "
            "count twice: apply manifests/crds"
        )


async def look(api: ApiClient, *, timeout: float) -> None:
    """Raises as `judge` does, and `ApiError`, `Unreachable`."""
    try:
        document = await api.fetch("GET", PATH, timeout=timeout)
    except NotFound as error:
        raise MissingDefinitions(f"{API_VERSION} is not served: apply manifests/crds") from error
    except ApiError as error:
        if error.status in (401, 403):
            raise
        raise MissingDefinitions(str(error)) from error
    judge(document)


def _is_ours(name: dict[str, str]) -> bool:
    return name.get("group") == GROUP and name.get("version") == VERSION


def _keeps(schema: _Schema, kind: ResourceKind) -> bool:
    status = schema.properties.get("status")
    if status is None:
        return False
    read = _STATUS.decode(status)
    return read.preserves or APPLIED_REPORTS in read.properties
