"""What the hub asks of GM, and what it tells.

Owns the words between the hub (streams of LCs) and GM's shell (collections, leadership, reports).
Knows neither how objects come from the API nor how messages travel. Everything here is called in
the one event loop; nothing blocks, and only `room` and `node_of` wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from edge_sidecars.sedna_api.core.api_object import Document
from edge_sidecars.sedna_api.core.messages import Ack, ReportRefused
from edge_sidecars.sedna_api.core.report import Report
from gm.cache.informers import NodeListener
from gm.hub.core.sedna_messages import Unresolved


class HubObjects(Protocol):
    """All objects that nodes are to know. What `node_documents` gives and what listeners heard
    agree at every moment."""

    @property
    def is_synced(self) -> bool:
        """Every collection was listed once."""

    @property
    def is_link_up(self) -> bool:
        """The relay reaches the API server, as far as it knows."""

    def node_documents(self, node: str) -> Iterable[Document]:
        """Everything that concerns the node, Models of its jobs included, in any order."""

    def version(self, kind: str) -> int:
        """The resourceVersion that the collection has come to; `kind` as in `Document.kind`.
        0 where there is no such collection."""

    def subscribe(self, listener: NodeListener) -> None:
        """From now on, until the process ends."""


# An `Ack`: the report is in a NodeReport, and so are all of its object and store with a lower seq
# that were taken before it; a sink that cannot store one acknowledges no later one. A
# `ReportRefused`: it will never be stored.
Answer: TypeAlias = Callable[[Ack | ReportRefused], None]


class ReportSink(Protocol):
    """Reports on their way into NodeReports."""

    def take(
        self,
        node: str,
        report: Report | Unresolved,
        answer: Answer,
    ) -> bool:
        """False where it is full: nothing was taken, ask again after `room`. The answer may come
        never (LC sends the report again) or after the stream's end."""

    def lost(self, node: str, report: Report | Unresolved) -> None:
        """The stream ended before there was room, and the report is not sent again."""

    async def room(self) -> None:
        """Returns when `take` is worth another try."""


class TokenReviewer(Protocol):
    """Whose bearer tokens prove a node's name."""

    async def node_of(self, token: str) -> str | None:
        """The node that the token is bound to; None where it proves none. Raises
        `ReviewUnavailable` where no answer can be had now."""


class ReviewUnavailable(Exception):
    """The API server did not answer the review."""


# Whether streams may be served, asked anew whenever it matters: in active-standby while this GM
# leads, in active-active always. The hub adds `is_synced` and `is_link_up` by itself.
MayServe = Callable[[], bool]
