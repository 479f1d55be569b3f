"""Who is in the pool, and what proves it: the directory, of PoolMembers. Pure.

Guarantees: a directory has at most `MAX_MEMBERS` members, the node's own among them, and is the
same on every node that has the same PoolMembers. A certificate has its node's name in it, so that
no member passes for another one, or takes its certificate from it, by publishing that; one that
names two nodes is none.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from pool_sidecar.core.pool_member import MAX_MEMBERS, PoolMember

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
# DER of id-at-commonName (RFC 5280, A.1), and how often a self-signed certificate has it: once in
# its subject and once in its issuer.
_COMMON_NAME: Final = b"\x06\x03\x55\x04\x03"
_NAMES: Final = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """Another member. `certificates`: DER, each its own authority. `is_lost`: the API does not hear
    its node."""

    name: str
    addresses: tuple[str, ...] = ()
    certificates: tuple[bytes, ...] = ()
    may_lead: bool = False
    is_dead: bool = False
    is_lost: bool = False

    @property
    def identity(self) -> tuple[tuple[str, ...], tuple[bytes, ...]]:
        """Where it is, and what proves it."""
        return self.addresses, self.certificates


@dataclass(frozen=True, slots=True)
class Directory:
    """The pool as one node knows it. `pool`: "" where the node is in none; then it has no peers."""

    name: str
    pool: str = ""
    may_lead: bool = False
    peers: Mapping[str, Peer] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, members: Iterable[PoolMember]) -> Self:
        """`members`: of any pools. A 65th member, by name, is none."""
        found = {it.name: it for it in members}
        own = found.get(name)
        if own is None or not own.pool:
            return cls(name)
        pool = sorted((it for it in found.values() if it.pool == own.pool), key=_name)[:MAX_MEMBERS]
        if own not in pool:
            return cls(name)
        peers = {
            it.name: Peer(
                it.name,
                it.status.addresses,
                _certificates(it),
                it.may_lead,
                it.is_dead,
                it.is_lost,
            )
            for it in pool
            if it is not own
        }
        return cls(name, own.pool, own.may_lead, peers)

    def owner_of(self, certificate: bytes) -> Peer | None:
        """The peer whose certificate (DER) it is."""
        return next((it for it in self.peers.values() if certificate in it.certificates), None)

    @property
    def certificates(self) -> tuple[bytes, ...]:
        """Of all peers."""
        return tuple(der for it in self.peers.values() for der in it.certificates)


def common_name(node: str) -> str:
    """Of a member's certificate, which takes 64 characters; names of nodes have up to 253."""
    return hashlib.sha256(f"pool-member/{node}".encode()).hexdigest()


def to_der(pem: str) -> bytes:
    """Of the first certificate. Raises ValueError."""
    _, begin, rest = pem.partition(_BEGIN)
    body, end, _ = rest.partition(_END)
    if not (begin and end):
        raise ValueError("not a certificate in PEM")
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not a certificate in PEM: {error}") from error


def _certificates(member: PoolMember) -> tuple[bytes, ...]:
    name = common_name(member.name).encode()
    found = (_der_of(pem) for pem in member.status.certificates)
    own = (der for der in found if name in der and der.count(_COMMON_NAME) <= _NAMES)
    return tuple(dict.fromkeys(own))


def _der_of(pem: str) -> bytes:
    try:
        return to_der(pem)
    except ValueError:
        return b""  # Of a member that published none that can be used.


def _name(member: PoolMember) -> str:
    return member.name
