"""What nodes have reported and objects have not taken in yet, by the objects' uid.

Owns the parsed NodeReports. Guarantees: each is parsed once a change; one that cannot be read is as
if it were not there, which is logged. Does no I/O.
"""

from collections.abc import Callable, Iterator, Mapping

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import MalformedReport
from edge_sidecars.sedna_api.core.stored_report import StoredReport


class NodeReportIndex:
    """`touched(uid)` is told of each object about which other reports wait than before."""

    def __init__(self, touched: Callable[[str], None]) -> None:
        self._touched = touched
        self._reports: dict[tuple[str, str], NodeReport] = {}
        # By uid: the NodeReports in which something waits.
        self._waiting: dict[str, set[tuple[str, str]]] = {}

    def __iter__(self) -> Iterator[NodeReport]:
        return iter(tuple(self._reports.values()))

    def get(self, namespace: str, node: str) -> NodeReport | None:
        return self._reports.get((namespace, node))

    def pending(self, uid: str) -> Mapping[str, tuple[StoredReport, ...]]:
        """By node."""
        keys = self._waiting.get(uid, ())
        return {key[1]: self._reports[key].pending(uid) for key in sorted(keys)}

    @property
    def backlog(self) -> int:
        """Reports that wait, or are to be pruned."""
        return sum(
            len(self._reports[key].pending(uid))
            for uid, keys in self._waiting.items()
            for key in keys
        )

    def changed(self, before: Document | None, after: Document | None) -> None:
        document = after or before
        if document is None:
            return
        key = (document.namespace, document.name)
        old = self._reports.pop(key, None)
        new = _parsed(after) if after is not None else None
        if new is not None:
            self._reports[key] = new
        uids = {it.uid: None for each in (old, new) if each for it in each.entries.values()}
        for uid in uids:
            had = old.pending(uid) if old else ()
            has = new.pending(uid) if new else ()
            if had == has:
                continue
            if has:
                self._waiting.setdefault(uid, set()).add(key)
            elif keys := self._waiting.get(uid):
                keys.discard(key)
                if not keys:
                    del self._waiting[uid]
            if has:
                self._touched(uid)


def _parsed(document: Document) -> NodeReport | None:
    try:
        return NodeReport.parse(document.raw)
    except MalformedReport as error:
        logger.warning(
            "a NodeReport cannot be read", extra=fields(object=str(document.key), why=str(error))
        )
        return None
