"""Which callers are answered, as the flags say."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import ApiTransport, Credentials
from edge_sidecars.runtime.tasks import Spawn
from relay_sidecar.access.admission import Access, OwnAccess
from relay_sidecar.config.config import Config
from relay_sidecar.core.access.expiry import OfflineClock
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.link_probe import LinkProbe


@dataclass(frozen=True)
class OpenedAccess:
    """With --access caller: `clock`, by which ages count while upstream cannot be asked, and
    `size`: bytes of decisions that are kept. With --client-ca-file, `node`: for which the relay
    acts. `issued`: to be called
    with each token that this node gets."""

    access: Access
    clock: OfflineClock | None = None
    issued: Sequence[Callable[[str], None]] = ()
    node: str = ""
    # What a token was allowed: `CallerAccess.rights`; whether its pod reads here:
    # `NodeAccess.has_read`.
    rights: Callable[[str], Sequence[str]] = lambda _: ()
    has_read: Callable[[str], bool] = lambda _: False
    size: Callable[[], int] = lambda: 0


async def open_access(
    config: Config,
    transport: ApiTransport,
    credentials: Credentials,
    journal: Journal,
    saved: Saved,
    probe: LinkProbe,
    stack: AsyncExitStack,
    *,
    are_authentic: bool,
    known: Callable[[], Iterable[ResourceName]],
    spawn: Spawn,
) -> OpenedAccess:
    """`are_authentic`: what was saved of rights is known to be a relay's; `known`: the resources of
    which the relay has something. Raises `BadInput`."""
    if not config.asks_callers:
        return OpenedAccess(
            OwnAccess(
                config.listen,
                allowed_hosts=config.allowed_hosts,
                token_file=config.local_token_file,
            )
        )
    # Half a MiB of a relay that has no callers of its own.
    from relay_sidecar.access.asking import open_asking

    return await open_asking(
        config,
        transport,
        credentials,
        journal,
        saved,
        probe,
        stack,
        are_authentic=are_authentic,
        known=known,
        spawn=spawn,
    )
