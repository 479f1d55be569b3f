"""Whom a member has heard, as its data directory keeps it over a restart. Pure.

Guarantees: An entry is of one peer at one address with one certificate. Its age is the time for
which this node ran since: within one boot by CLOCK_BOOTTIME, and over a reboot what had passed when
it was written and what has passed since the boot. No wall clock is read. What cannot be read is as
if it were not there (ValueError).
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pool_sidecar.core.members import Peer
from pool_sidecar.core.pool_member import MAX_MEMBERS, MAX_NAME

VERSION: Final = 1
# Bytes; an entry has some 150 beside its name.
MAX_BYTES: Final = MAX_MEMBERS * (MAX_NAME + 512)


@dataclass(frozen=True, slots=True)
class Hearing:
    """`identity`: of the peer as it was heard, by `identity_of`; `at`: seconds of CLOCK_BOOTTIME,
    below 0 for what was heard before this boot."""

    identity: str
    at: float


def identity_of(peer: Peer) -> str:
    """Its addresses and certificates, as a digest."""
    digest = hashlib.sha256()
    for part in (*(it.encode() for it in peer.addresses), b"", *peer.certificates):
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.hexdigest()


def encode(heard: Mapping[str, Hearing], *, now: float, boot_id: str) -> str:
    """`now`: of CLOCK_BOOTTIME, whose boot has this id."""
    entries = {
        name: {"identity": it.identity, "ago": round(now - it.at, 3)} for name, it in heard.items()
    }
    document = {"version": VERSION, "bootId": boot_id, "at": round(now, 3), "heard": entries}
    return json.dumps(document, indent=1) + "\n"


def decode(text: str, *, now: float, boot_id: str) -> dict[str, Hearing]:
    """Raises ValueError."""
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"not a document of version {VERSION}")
    written_at = _seconds(document.get("at"))
    is_same_boot = document.get("bootId") == boot_id
    since = now - written_at if is_same_boot else now
    if since < 0:
        raise ValueError("written later than now")
    entries = document.get("heard")
    if not isinstance(entries, dict) or len(entries) >= MAX_MEMBERS:
        raise ValueError(f"not what fewer than {MAX_MEMBERS} peers were heard as")
    return {name: _hearing(found, now - since) for name, found in entries.items()}


def _hearing(found: Any, written_at: float) -> Hearing:
    match found:
        case {"identity": str(identity), "ago": ago}:
            return Hearing(identity, written_at - _seconds(ago))
    raise ValueError("an entry without an identity or an age")


def _seconds(found: Any) -> float:
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not 0 <= found < math.inf:
        raise ValueError(f"{found!r:.40} is no number of seconds")
    return float(found)
