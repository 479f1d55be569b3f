"""What a probe asks, where nothing is amiss: the API server itself, or only whether it is there.

`OPTIONS *` is for that (RFC 9110, 9.3.7): a server answers it with 75 bytes and nothing else, where
/livez is 400 and goes through the API server's filters. Go's net/http answers it for kube-apiserver
(server.go, globalOptionsHandler).

Guarantees: a brief answer is believed only of whoever is the API server's own HTTP server, not of a
gateway, which may have nobody behind it; in doubt, and each `BRIEF_IN_A_ROW` probes, the API server
is asked itself.
"""

from collections.abc import Container
from typing import Final

BRIEF_IN_A_ROW: Final = 60
# RFC 9110, 7.6.3 and 10.2.4: kube-apiserver names itself in neither.
_OF_GATEWAYS: Final = ("Server", "Via")


class Probing:
    def __init__(self, *, may_be_brief: bool) -> None:
        self._may_be_brief = may_be_brief
        self._left = 0

    def is_brief(self, *, in_doubt: bool) -> bool:
        """Of the probe that is about to start; `in_doubt`: upstream is not certainly there."""
        if in_doubt:
            self._left = 0
        return self._left > 0

    def answered(self, headers: Container[str]) -> None:
        """The API server's own answer; `headers` by their names."""
        self._left = BRIEF_IN_A_ROW if self._may_be_brief and _is_direct(headers) else 0

    def briefly_answered(self, status: int, headers: Container[str]) -> bool:
        """Whether that proves anything; else the API server is to be asked itself."""
        self._left -= 1
        self._may_be_brief = status == 200 and _is_direct(headers)
        return self._may_be_brief


def _is_direct(headers: Container[str]) -> bool:
    return not any(name in headers for name in _OF_GATEWAYS)
