"""What a probe asks, where nothing is amiss: the API server itself, or only whether it is there.

`OPTIONS *` is for that (RFC 9110, 9.3.7): a server answers it with 75 bytes and nothing else, where
/livez is 400 and goes through the API server's filters. Go's net/http answers it for kube-apiserver
(server.go, globalOptionsHandler), and as well for any gateway that is written in Go.

Guarantees: a brief answer counts only from a server that has proved to be the API server by its
certificate, not from a gateway, which may have no server behind it; in doubt, and each
`BRIEF_IN_A_ROW` probes, the API server itself is asked; a server that does not answer the brief
question well is not asked it again for as many probes.
"""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

BRIEF_IN_A_ROW: Final = 60
# What clients in the cluster verify it by; no gateway has it in a certificate of its own.
_API_SERVER: Final = "kubernetes.default.svc"
# RFC 9110, 7.6.3 and 10.2.4: kube-apiserver names itself in neither.
_OF_GATEWAYS: Final = ("Server", "Via")


class ProbeReply(Struct, frozen=True):
    """To a probe; `peer_names` are the DNS names of the certificate, as far as it is verified."""

    status: int
    headers: Mapping[str, str]
    peer_names: Collection[str]

    @property
    def is_of_api_server(self) -> bool:
        """Not of a gateway."""
        is_named = any(name in self.headers for name in _OF_GATEWAYS)
        return _API_SERVER in self.peer_names and not is_named


class ProbeRequests:
    """`may_be_brief`: what else is known of upstream does not speak against it."""

    def __init__(self, *, may_be_brief: bool) -> None:
        self._may_be_brief = may_be_brief
        # Probes that may be brief until the API server itself is asked, and probes until any is.
        self._left = self._pause = 0
        self._is_asked = False

    def is_brief(self, *, in_doubt: bool) -> bool:
        """Of the probe that is about to start; `in_doubt`: upstream is not certainly there."""
        if in_doubt:
            self._left = 0
        is_brief = self._left > 0
        self._is_asked |= is_brief
        return is_brief

    def briefly_answered(self, reply: ProbeReply) -> bool:
        """Whether that proves anything; else the API server is to be asked itself."""
        if reply.status != 200 or not reply.is_of_api_server:
            return False
        self._is_asked = False
        self._left -= 1
        return True

    def answered(self, reply: ProbeReply) -> None:
        """The API server's own answer."""
        if self._is_asked:
            # In vain.
            self._is_asked = False
            self._pause = BRIEF_IN_A_ROW
        may_be_brief = self._may_be_brief and self._pause == 0 and reply.is_of_api_server
        self._left = BRIEF_IN_A_ROW if may_be_brief else 0
        self._pause = max(self._pause - 1, 0)
