"""Where the lists and watches of one stream come from: the API server, or a hub of the pool."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, Protocol

from relay_sidecar.core.stream.reflection import LinkVerdict
from relay_sidecar.upstream.link_probe import LinkProbe
from relay_sidecar.upstream.reflector.source import UpstreamSource

# As /status calls the API server.
CLOUD: Final = "cloud"


class Feed(Protocol):
    """Of one stream. `page` and `batches` are those of `UpstreamSource`, of what was chosen last.

    A hub's answer is one of the API server only as long as it is a good one: what else it says ends
    no stream, and is said to `disappointed`.
    """

    @property
    def link(self) -> LinkVerdict:
        """To what was chosen."""
        ...

    @property
    def answered_at(self) -> float:
        """Wall time of the latest sign of what was chosen."""
        ...

    @property
    def source(self) -> str:
        """`CLOUD`, or the hub's name."""
        ...

    @property
    def is_cloud(self) -> bool: ...

    @property
    def is_wrong(self) -> bool:
        """Whether another source would be chosen now."""
        ...

    def may_ask(self, *, is_up: bool) -> bool:
        """Whether there is anything to ask; `is_up`: the link to upstream, as reported last."""
        ...

    async def choose(self) -> None:
        """Before a list or a watch: from where it comes."""
        ...

    def disappointed(self, *, is_expired: bool = False) -> bool:
        """What was chosen failed, or cannot be believed; `is_expired`: it knows the version no
        more. Whether it was a hub: then the next source is asked at the same version."""
        ...

    async def page(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        accept: str = "application/json",
        arrived: Callable[[bytearray], None] | None = None,
        aged: Callable[[float], None] | None = None,
    ) -> bytearray: ...

    def batches(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[Sequence[bytes], None]: ...


class CloudFeed:
    """Of what no pool shares."""

    is_cloud = True
    is_wrong = False
    source = CLOUD

    def __init__(self, source: UpstreamSource, probe: LinkProbe) -> None:
        self._probe = probe
        self.link: LinkVerdict = probe.link
        self.page = source.page
        self.batches = source.batches

    @property
    def answered_at(self) -> float:
        return self._probe.answered_at

    def may_ask(self, *, is_up: bool) -> bool:
        return is_up

    async def choose(self) -> None:
        """There is one."""

    def disappointed(self, *, is_expired: bool = False) -> bool:
        return False
