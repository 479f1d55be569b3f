"""What the web layer asks before it answers; and `--access own`, where everybody has the relay's
rights and only this machine may come.

Verifies no token: only upstream knows whose one is. A token is a secret: a `Caller` does not print
it, and no message holds one. Guarantees of `own`: a web page cannot use a browser on this machine
(DNS rebinding: the Host is another's; cross-site requests: there is an Origin); with
`--local-token-file` a request needs the token, which may be replaced at any time.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from aiohttp import hdrs

from edge_sidecars.apimachinery.lru import lru
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.status import Refused, Status, forbidden, unauthorized
from edge_sidecars.kubeapi.credentials import WatchedFiles
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure
from edge_sidecars.runtime.formats.bearer import bearer_token, is_token
from edge_sidecars.runtime.web.aiohttp_web import BaseRequest, RequestKey
from edge_sidecars.runtime.web.cross_site import host_name
from relay_sidecar.config.config import Config
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.core.upgrade_request import names_itself, websocket_token


@dataclass(frozen=True, slots=True)
class Caller:
    """`token` is "" where everybody acts with the relay's rights; `is_node`: it has shown the
    certificate of the node for which the relay acts."""

    token: str = field(default="", repr=False)
    is_node: bool = False


# Who sent a request, once it has been admitted.
CALLER = RequestKey("caller", Caller)


class Access(Protocol):
    async def admit(self, request: BaseRequest) -> Caller:
        """Raises `Refused` (401, 403)."""
        ...

    async def may(
        self, caller: Caller, info: RequestInfo, *, label_selector: str, field_selector: str
    ) -> float:
        """Until when (monotonic seconds) the caller may read this; then it is to be asked again,
        while what was begun goes on. Raises `Refused` (401, 403, 503)."""
        ...

    def is_of_node(self, caller: Caller) -> bool:
        """Whether this is the node itself, or a component that it needs to have pods; of a caller
        that may read something."""
        ...

    def link(self, is_up: bool) -> None:
        """Upstream answers again, or has just ceased to."""

    def headers_for_upstream(self, caller: Caller) -> Mapping[str, str]:
        """What replaces the Authorization that the caller sent: without one, the
        relay's own credentials."""
        ...


@dataclass(frozen=True)
class OpenedAccess:
    """With --access caller: `clock`, by which ages count while upstream cannot be asked, and
    `size`: bytes of decisions that are kept. With --client-ca-file, `node`: for which the relay
    acts. `issued`: to be called with each token that this node gets."""

    access: Access
    clock: OfflineClock | None = None
    issued: Sequence[Callable[[str], None]] = ()
    node: str = ""
    # What a token was allowed: `CallerAccess.rights`; whether its pod reads here:
    # `NodeAccess.has_read`.
    rights: Callable[[str], Sequence[str]] = lambda _: ()
    has_read: Callable[[str], bool] = lambda _: False
    size: Callable[[], int] = lambda: 0


def token_of(request: BaseRequest) -> str | None:
    """The token by which the request says who asks, None where there is none: of its Authorization,
    or of a WebSocket's protocols. Raises `Refused` (401)."""
    return bearer_token(request.headers.get(hdrs.AUTHORIZATION)) or websocket_token(request.headers)


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


def open_own(config: Config) -> OpenedAccess:
    """Every caller acts with the relay's rights. Raises `BadInput`."""
    return OpenedAccess(
        OwnAccess(
            config.listen, allowed_hosts=config.allowed_hosts, token_file=config.local_token_file
        )
    )


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
