"""Whose report counts: only that of the worker which it names, by the capability in its path.

GM keeps a key with the object and gives each worker the capability that follows from it
(`sedna_api/core/capability.py`). Without one a report counts only where LC trusts any worker of its
node, for pods that a release before capabilities made.
"""

from collections.abc import Mapping

import msgspec

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.capability import is_capability, key_of
from lc.core.worker_info import WorkerInfo


class NotAuthorized(Exception):
    """The sender has not shown that it is the worker that the report names."""


class KeyNotHere(Exception):
    """The object is known, and its key is not yet."""


class _WorkerMetadata(msgspec.Struct):
    annotations: Mapping[str, object] = {}


class _WorkerObject(msgspec.Struct):
    metadata: _WorkerMetadata


_OBJECT = msgspec.json.Decoder(_WorkerObject)


class WorkerAuthorization:
    """Of the workers on one node."""

    def __init__(self, node: str, *, trusts_any_worker: bool) -> None:
        self._node = node
        self._trusts_any_worker = trusts_any_worker

    def check_presence(self, info: WorkerInfo) -> None:
        """Of an object that may be unknown. Raises `NotAuthorized`."""
        if not info.capability and not self._trusts_any_worker:
            raise NotAuthorized(
                "a report without a capability: send it below the LC_SERVER that GM gave the "
                "worker, or start sedna-lc with --trust-any-worker while there are pods of before"
            )

    def check(self, info: WorkerInfo, document: Document) -> None:
        """Raises `NotAuthorized`, `KeyNotHere`."""
        self.check_presence(info)
        if not info.capability:
            return
        key = _key(document)
        if not key:
            raise KeyNotHere(f"the key of {document.key} has not come from GM yet: say it again")
        if not is_capability(
            info.capability, key, uid=document.uid, worker=info.name, node=self._node
        ):
            raise NotAuthorized(
                f"the capability is not that of worker {info.name!r:.80} of {document.key} here"
            )


def _key(document: Document) -> str:
    try:
        annotations = _OBJECT.decode(document.raw).metadata.annotations
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return key_of(annotations, document.uid)
