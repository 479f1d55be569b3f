"""Tokens that one pod gets one after the other, and what the pod asks for with them.

A renewed token is another user to upstream's reviews, and a pod that only watches brings it to the
relay up to ten minutes after it was issued. A node that is cut off before, and starts its pods
anew, would give them a token that cannot be verified. So what upstream allowed with the tokens of
before is remembered, for the newest one to be reviewed at once.

Whose a token is, its claims say, which upstream has verified before anything here learns of
them. Bounds: only families of tokens that this relay passed on to its node take part, so that no
stranger spends them.

What is remembered outlasts the relay: flanneld asks for its own pod when it starts, and then never
again. `take_unkept` gives what is to be written.
"""

import base64
from collections import OrderedDict
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from relay_sidecar.core.access.authorizer import Attributes

# As many as answers to TokenRequest are kept.
MAX_FAMILIES: Final = 1024
# What kube-proxy, CoreDNS or a controller reads is less than ten, and as many it may read besides.
MAX_ATTRIBUTES: Final = 64
# Bytes of a family, and of what it asked for once (sys.getsizeof, rounded).
FAMILY_BYTES: Final = 1000
ATTRIBUTES_BYTES: Final = 800
# Of tokens whose claims are looked at for each request.
_CACHED: Final = 256


class _Reference(msgspec.Struct):
    uid: str = ""


class _Kubernetes(msgspec.Struct):
    pod: _Reference


class _Claims(msgspec.Struct):
    """Of a token that is bound to a pod: KEP-1205."""

    sub: str
    aud: list[str]
    kubernetes: _Kubernetes = msgspec.field(name="kubernetes.io")


class TokenFamily(NamedTuple):
    """Whose a token is, and for whom."""

    user: str
    pod_uid: str
    audiences: tuple[str, ...]


_DECODER = msgspec.json.Decoder(_Claims)
_ENCODER = msgspec.json.Encoder()
_NAMES = msgspec.json.Decoder(TokenFamily)
_ATTRIBUTES = msgspec.json.Decoder(list[Attributes])


class _Members:
    def __init__(self) -> None:
        self.newest = ""
        # What was asked for last is last.
        self.attributes: OrderedDict[Attributes, None] = OrderedDict()


class TokenFamilies:
    """Confidential: holds the newest token of each pod."""

    def __init__(self) -> None:
        self._families: OrderedDict[TokenFamily, _Members] = OrderedDict()
        self._unkept: set[TokenFamily] = set()

    @property
    def size(self) -> int:
        """Bytes."""
        members = self._families.values()
        attributes = sum(len(it.attributes) for it in members)
        tokens = sum(len(it.newest) for it in members)
        return tokens + FAMILY_BYTES * len(members) + ATTRIBUTES_BYTES * attributes

    def restore(self, kept: Mapping[bytes, bytes]) -> None:
        """What `take_unkept` gave in an earlier life."""
        for name, value in kept.items():
            try:
                family, attributes = _NAMES.decode(name), _ATTRIBUTES.decode(value)
            except msgspec.MsgspecError:
                continue
            members = self._families.setdefault(family, _Members())
            members.attributes.update(dict.fromkeys(attributes))

    def take_unkept(self) -> dict[bytes, bytes | None]:
        """What is to be written since the last time; None is to be deleted."""
        found: dict[bytes, bytes | None] = {}
        for family in self._unkept:
            members = self._families.get(family)
            found[_ENCODER.encode(family)] = None if members is None else _record(members)
        self._unkept.clear()
        return found

    def snapshot(self) -> dict[bytes, bytes]:
        """All that is to be kept, as if nothing had been written yet."""
        return {
            _ENCODER.encode(family): _record(members)
            for family, members in self._families.items()
            if members.attributes
        }

    def issued(self, token: str) -> tuple[Attributes, ...]:
        """What is to be asked about with it."""
        family = family_of(token)
        if family is None:
            return ()
        found = self._families.setdefault(family, _Members())
        self._families.move_to_end(family)
        found.newest = token
        if len(self._families) > MAX_FAMILIES:
            self._unkept.add(self._families.popitem(last=False)[0])
        return tuple(found.attributes)

    def wanted(self, token: str) -> tuple[Attributes, ...]:
        """What the pod of the token asked for, with this one or those before."""
        family = family_of(token)
        found = None if family is None else self._families.get(family)
        return () if found is None else tuple(found.attributes)

    def asked(self, token: str, attributes: Attributes) -> str:
        """And upstream allows it. Returns the token with which it is to be asked about as well, or
        ""."""
        family = family_of(token) if self._families else None
        found = None if family is None else self._families.get(family)
        if found is None:
            return ""
        is_new = attributes not in found.attributes
        found.attributes[attributes] = None
        found.attributes.move_to_end(attributes)
        if len(found.attributes) > MAX_ATTRIBUTES:
            found.attributes.popitem(last=False)
        if is_new and family is not None:
            self._unkept.add(family)
        return found.newest if is_new and found.newest != token else ""

    def is_newest(self, token: str) -> bool:
        family = family_of(token)
        found = None if family is None else self._families.get(family)
        return found is not None and found.newest == token


def _record(members: _Members) -> bytes:
    return _ENCODER.encode(list(members.attributes))


@lru_cache(_CACHED)
def family_of(token: str) -> TokenFamily | None:
    """By its claims, which are not verified here; None where it is not bound to a pod."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        claims = _DECODER.decode(payload)
    except (ValueError, msgspec.MsgspecError):
        return None
    uid = claims.kubernetes.pod.uid
    return TokenFamily(claims.sub, uid, tuple(claims.aud)) if uid else None
