"""What upstream has said about callers, and for how long that stands.

Two facts make a decision: whose a token is, and what that user may. Each is good for `ttl` after
upstream said it; while upstream is out of reach, for `offline_ttl`, and a token no longer than it
says itself. A refused token or a denial replaces what was known before, at once.

    judge --> Standing        answer, until then
          --> Ask             upstream, then judge again
          --> Rejected        upstream refused the token, or it says itself that it is over
          --> Unverifiable    nobody can be asked, and nothing recent enough is known

Tokens and what is decided stand here, and in what is kept, only as keyed hashes: who reads the
journal can neither use nor guess them. Names of users are kept, for the messages. `now` is a clock
that runs on through suspend, `wall` is unix time, by which tokens expire.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TypeVar

from .attributes import Attributes
from .ledger import Ledger
from .tokens import expiry

# Seconds for which a refused token is not asked about again: a caller that knows no better comes
# back faster than that, and what mends a token takes longer.
REJECTED_TTL = 3.0
# More callers than a node has pods, and more than they ask about.
MAX_TOKENS = 2048
MAX_DECISIONS = 16384
_IDENTITY, _DECISION = "identity/", "decision/"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class User:
    """The userInfo of a SelfSubjectReview; `extra` is sorted by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Standing:
    """`user` is the name, `reason` the authorizer's."""

    allowed: bool
    user: str
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Ask:
    """`who`: whose the token is has to be asked too."""

    who: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    pass


@dataclass(frozen=True, slots=True)
class Unverifiable:
    pass


Verdict = Standing | Ask | Rejected | Unverifiable


@dataclass(frozen=True, slots=True)
class _Identity:
    """`user_key` stands for all of the user, groups included; `expires_at` is unix time."""

    user: str
    user_key: str
    expires_at: float | None


@dataclass(frozen=True, slots=True)
class _Decision:
    allowed: bool
    reason: str


class Decisions:
    """`salt` makes the hashes ours; with that of an earlier life, what it kept can be restored."""

    def __init__(self, *, salt: bytes, ttl: float, offline_ttl: float) -> None:
        self._salt = salt
        self._ttl = ttl
        self._offline_ttl = offline_ttl
        self._identities = Ledger(_Identity, life=offline_ttl, limit=MAX_TOKENS)
        self._decisions = Ledger(_Decision, life=offline_ttl, limit=MAX_DECISIONS)
        self._rejected: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._decisions)

    def judge(
        self, token: str, attributes: Attributes, *, now: float, wall: float, is_online: bool
    ) -> Verdict:
        token_key = self._hash(token)
        if now - self._rejected.get(token_key, -math.inf) < REJECTED_TTL:
            return Rejected()
        life = self._ttl if is_online else self._offline_ttl
        who = self._identities.get(token_key)
        if who is None or now - who.at >= life:
            return Ask(who=True) if is_online else Unverifiable()
        expires_in = math.inf if who.fact.expires_at is None else who.fact.expires_at - wall
        if not is_online and expires_in <= 0:
            return Rejected()
        what = self._decisions.get(self._decision_key(who.fact.user_key, attributes))
        if what is None or now - what.at >= life:
            return Ask(who=False) if is_online else Unverifiable()
        until = min(who.at, what.at) + life
        if not is_online:
            # The link may be back after another `ttl`.
            until = min(until, now + self._ttl, now + expires_in)
        return Standing(what.fact.allowed, who.fact.user, what.fact.reason, until)

    def identified(self, token: str, user: User, *, now: float) -> None:
        """Upstream says that the token is this user's."""
        user_key = self._hash(json.dumps(astuple(user)))
        fact = _Identity(user.name, user_key, expiry(token))
        token_key = self._hash(token)
        self._rejected.pop(token_key, None)
        self._identities.learn(token_key, fact, now=now)

    def rejected(self, token: str, *, now: float) -> None:
        """Upstream knows no such token."""
        token_key = self._hash(token)
        self._identities.forget(token_key)
        self._rejected[token_key] = now
        self._rejected.move_to_end(token_key)
        while len(self._rejected) > MAX_TOKENS:
            self._rejected.popitem(last=False)

    def decided(
        self, token: str, attributes: Attributes, *, allowed: bool, reason: str, now: float
    ) -> None:
        """About the user whose the token was when it was last identified."""
        who = self._identities.get(self._hash(token))
        if who is not None:
            key = self._decision_key(who.fact.user_key, attributes)
            self._decisions.learn(key, _Decision(allowed, reason), now=now)

    # ── what outlives the process ──

    def take_unkept(self, *, now: float, wall: float) -> dict[str, bytes | None]:
        """What is to be written since the last time; None is to be deleted."""
        return _joined(
            self._identities.take_unkept(now=now, wall=wall),
            self._decisions.take_unkept(now=now, wall=wall),
        )

    def snapshot(self, *, now: float, wall: float) -> dict[str, bytes]:
        """All that is to be kept, as if nothing had been written yet."""
        return _joined(
            self._identities.snapshot(now=now, wall=wall),
            self._decisions.snapshot(now=now, wall=wall),
        )

    def restore(self, kept: Mapping[str, bytes], *, now: float, wall: float) -> None:
        """What `take_unkept` gave in an earlier life with the same salt."""
        self._identities.restore(_under(_IDENTITY, kept), now=now, wall=wall)
        self._decisions.restore(_under(_DECISION, kept), now=now, wall=wall)

    def _decision_key(self, user_key: str, attributes: Attributes) -> str:
        return self._hash(json.dumps([user_key, *astuple(attributes)]))

    def _hash(self, text: str) -> str:
        return hmac.new(self._salt, text.encode(), hashlib.sha256).hexdigest()


def _joined(identities: Mapping[str, V], decisions: Mapping[str, V]) -> dict[str, V]:
    return {_IDENTITY + key: value for key, value in identities.items()} | {
        _DECISION + key: value for key, value in decisions.items()
    }


def _under(prefix: str, kept: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)
    }
