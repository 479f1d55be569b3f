"""Whether the main of this process leads, as its elector says.

Guarantees: `is_leader` and `may_act` are functions of the clock when they are called; subscribers
are called on each change within a heartbeat, and on an expiry at the moment of the deadline. A
stream that breaks ends no lead: its last document counts until its deadline. The arithmetic is
`lead.py`.
"""

from collections.abc import Callable

from edge_sidecars.kubeapi import ApiClient, Plain
from edge_sidecars.leader_client.document_stream import DocumentStream, Follower
from edge_sidecars.leader_client.lead import Lead, LeaderDocument
from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.log import fields, logger

# So many documents of a leader that each leave too little time for a request are no chance.
SHORT_HEARTBEATS = 5


class LeaderClient(Follower):
    """Follows `/leader` of the elector at `url` while it is entered, or while `run` runs.

    `request_timeout`: the longest that one action of the main takes, in seconds; `may_act` is
    about that long unless the call has another.
    """

    def __init__(
        self, url: str, *, request_timeout: float = 0.0, user_agent: str = "leader-client"
    ) -> None:
        super().__init__()
        self.terms = 0
        self._url = url
        self._request_timeout = request_timeout
        self._user_agent = user_agent
        self._lead = Lead()
        self._listeners: list[Callable[[], None]] = []
        self._state: tuple[bool, int | None] = (False, None)
        self._short = 0

    @property
    def is_leader(self) -> bool:
        return not self._has_resigned and self._lead.is_leader(boottime())

    def may_act(self, *, within: float | None = None) -> bool:
        """Whether an action that begins now and takes `within` seconds at most ends while the lead
        is proven."""
        longest = self._request_timeout if within is None else within
        return not self._has_resigned and self._lead.may_act(boottime(), longest)

    @property
    def is_vacant(self) -> bool:
        """Whether no leader is known to be alive, so that this main may be the next."""
        return not self._has_resigned and self._lead.is_vacant(boottime())

    @property
    def term(self) -> int | None:
        """The fencing token, which grows with each term; None unless leader."""
        return self._lead.term(boottime()) if self.is_leader else None

    @property
    def remaining(self) -> float:
        """Seconds for which the lead is proven."""
        return max(self._lead.proof.deadline - boottime(), 0.0) if self.is_leader else 0.0

    @property
    def holder(self) -> str:
        """The leader's pod in the elector's last document; "" where none is known."""
        return "" if self._lead.document is None else self._lead.document.holder

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Called when the lead begins or ends, or a new term begins, until the process ends."""
        self._listeners.append(listener)

    async def wait_for(self, *, is_leader: bool) -> None:
        """Returns when `is_leader` is so."""
        while self.is_leader is not is_leader:
            await self._changed.wait()

    async def run(self) -> None:
        stream = DocumentStream(
            "/leader",
            parse=LeaderDocument.parse,
            proof=self._lead.proof,
            heard=self._heard,
            expired=self._update,
        )
        elector = ApiClient(Plain(self._url), user_agent=self._user_agent)
        try:
            await stream.run(elector)
        finally:
            await elector.close()

    def _heard(self, document: LeaderDocument) -> None:
        if self._lead.heard(document, boottime()):
            logger.debug("the elector says", extra=fields(holder=document.holder))
        self._short = self._short + 1 if document.is_leader and not self.may_act() else 0
        if self._short == SHORT_HEARTBEATS:
            logger.warning(
                "the lead is proven for too short a time to write",
                extra=fields(remaining=document.remaining, request_timeout=self._request_timeout),
            )
        self._update()

    def _update(self) -> None:
        state = (self.is_leader, self.term)
        if state == self._state:
            return
        was, self._state = self._state, state
        self._wake()
        if state[0]:
            self.terms += 1
            logger.info("leading", extra=fields(term=state[1]))
        elif was[0]:
            logger.info("not leading any more", extra=fields(holder=self.holder or "nobody"))
        for listener in self._listeners:
            listener()
