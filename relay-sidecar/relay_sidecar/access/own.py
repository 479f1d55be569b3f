"""`--access own`: everybody acts with the relay's rights, so only this machine may come.

Guarantees: a web page cannot use a browser on this machine to read or write (DNS rebinding: the
Host is another's; cross-site requests: there is an Origin); with `--local-token-file` nobody gets
in without the token, which may be replaced at any time.
"""

import math
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path

from aiohttp import hdrs

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused, Status, forbidden, unauthorized
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure
from edge_sidecars.runtime.formats.bearer import bearer_token, is_token
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest
from edge_sidecars.runtime.web.cross_site import host_name
from relay_sidecar.access.admission import Caller, token_of
from relay_sidecar.core.upgrade_request import names_itself

_EVERYBODY = Caller()


class OwnAccess:
    """Raises `BadInput` where there is no token in the file."""

    def __init__(
        self, listen: Address, *, allowed_hosts: Iterable[str] = (), token_file: Path | None = None
    ) -> None:
        self._hosts = frozenset({"localhost", listen.host, *allowed_hosts})
        self._token = None if token_file is None else _watched(token_file)

    async def admit(self, request: BaseRequest) -> Caller:
        hosts = request.headers.getall(hdrs.HOST, [])
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            raise Refused(_foreign(f"the Host {', '.join(hosts) or 'that is missing'}"))
        origins = request.headers.getall(hdrs.ORIGIN, [])
        if origins and not names_itself(request.headers):
            raise Refused(_foreign(f"the Origin {', '.join(origins)}"))
        if self._token is not None and not is_token(token_of(request), self._token.get()):
            raise Refused(unauthorized())
        return _EVERYBODY

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        return math.inf

    def is_of_node(self, caller: Caller) -> bool:
        return False

    def link(self, is_up: bool) -> None:
        """Callers need no review."""

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        return {}

    def _is_ours(self, host: str) -> bool:
        name, is_loopback = _addressed(host)
        return is_loopback or name in self._hosts


@lru(64)
def _addressed(host: str) -> tuple[str, bool]:
    """The name or address, as it is written, and whether it is one of this machine alone."""
    name = host_name(host)
    try:
        address = ip_address(name)
    except ValueError:
        return name, False
    return str(address), address.is_loopback


def _foreign(what: str) -> Status:
    why = f"{what} is not this relay's; --allowed-host names more"
    return forbidden("", why=why)


def _watched(path: Path) -> WatchedFiles[str]:
    watched = WatchedFiles([path], lambda: _read_token(path))
    try:
        watched.get()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--local-token-file {path}: {describe_failure(error)}; write the token that callers "
            "shall bring into it"
        ) from error
    return watched


def _read_token(path: Path) -> str:
    text = path.read_text().strip()
    if bearer_token(f"Bearer {text}") != text:
        raise ValueError("that is no token")
    return text
