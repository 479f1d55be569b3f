"""Which callers are answered, as the flags say."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from relay_sidecar.access.admission import Access, OwnAccess
from relay_sidecar.config.config import Config
from relay_sidecar.core.access.expiry import OfflineClock


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


def open_own(config: Config) -> OpenedAccess:
    """Every caller acts with the relay's rights. Raises `BadInput`."""
    return OpenedAccess(
        OwnAccess(
            config.listen, allowed_hosts=config.allowed_hosts, token_file=config.local_token_file
        )
    )
