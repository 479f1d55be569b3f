"""Whether a node may report about an object: only about what concerns it.

Owns rule G7 for reports, and G5's look at what is really there. Guarantees: what is refused for
good was refused by a live read, never because this process is behind; what the collections know to
be right costs no read.
"""

from gm.directory import Directory
from gm.placement import place_of
from gm.writes import Writes
from kubeapi import NotFound
from sedna_api.core.document import Document, ObjectKey
from sedna_api.core.kinds import kind_named
from sedna_api.core.report import Malformed, Report, check


def malformed(report: Report) -> str:
    """What is wrong with the report itself; "" for nothing."""
    try:
        check(report)
    except Malformed as error:
        return str(error)
    return ""


class Authority:
    """`namespace`: the only one that is looked after; "" for all."""

    def __init__(self, directory: Directory, writes: Writes, *, namespace: str) -> None:
        self._directory = directory
        self._writes = writes
        self._namespace = namespace

    async def objection(self, node: str, report: Report) -> str:
        """Why one that is not malformed is refused for good; "" where it is not. The same for all
        reports about one object. Raises `ApiError`, `Unreachable`."""
        if self._namespace and report.namespace != self._namespace:
            return f"namespace {report.namespace} is not looked after by this GM"
        key = ObjectKey(report.kind, report.namespace, report.name)
        if self._directory.named(report.uid) == key and node in self._directory.placement.nodes(
            key
        ):
            return ""
        return await self._live(node, report)

    async def _live(self, node: str, report: Report) -> str:
        kind = kind_named(report.kind)
        assert kind is not None
        try:
            raw = await self._writes.get(kind.path(report.namespace, report.name))
        except NotFound:
            return f"{kind.kind} {report.namespace}/{report.name} is gone"
        document = Document.parse(raw, kind.singular)
        if document.uid != report.uid:
            return f"{kind.kind} {report.namespace}/{report.name} with uid {report.uid} is gone"
        if node not in place_of(document, self._directory.reference).nodes:
            return f"{kind.kind} {report.namespace}/{report.name} does not concern node {node}"
        return ""
