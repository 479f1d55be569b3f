"""What upstream has answered about callers, and for how long that holds.

Two facts make a decision: whose a token is, and what that user may. While upstream answers, each
holds for `ttl` after upstream's answer, a denial for DENIED_TTL at most, and none from before the
link was last down. While upstream does not answer, what it answered up to `offline_ttl` before its
last answer holds for `offline_ttl` of running time (`expiry`) after it. Where upstream is there but
does not manage to decide, it holds for two `ttl`. The end that a token names counts for nothing: no
wall clock takes part. A refused token or a denial replaces what was cached before, at once.

    judge --> Decision                         answer, until then
          --> NEEDS_IDENTITY, NEEDS_DECISION   ask upstream, then judge again
          --> TOKEN_REJECTED                   upstream refused the token
          --> UNVERIFIABLE                     upstream cannot be asked, nothing recent is cached

While upstream does not answer, who may read in general (without a name or selectors, in that
namespace or in all) may read each by its name and with each selector, unless upstream denied just
that. So upstream is asked about the general `get` beside what a caller wants
(`AuthorizationCache.beside`): that it may list does not say that it may get. Only once in a while,
since it does not count while upstream answers, but within `ttl` where upstream denied what the
caller wants.

What was read from a disk that another program may have written to (`restore`) lets no caller read a
Secret, until upstream says so again: of all that such a disk protects, only Secrets are sealed.

Tokens and decisions are here, and in what is persisted, only as keyed hashes: a reader of the
journal can neither use nor guess them. Names of users are persisted, for the messages. `now` is of
a boot clock.
"""

from __future__ import annotations

import hmac
import json
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from operator import attrgetter
from typing import Final, TypeVar

from edge_sidecars.apimachinery.lru import lru
from relay_sidecar.core.access.authorizer import (
    Attributes,
    Authorization,
    Decision,
    Undecided,
    UserInfo,
)
from relay_sidecar.core.access.expiry import ExpiringEntry, ExpiringMap, OfflineClock

# Seconds for which a refused token is not asked about again: a caller that knows no better comes
# back faster than that, and what mends a token takes longer.
REJECTED_TTL = 3.0
# Seconds at most for which a denial holds. Where `ttl` is long, who was given a right does not
# wait for all of it, nor who was denied by an API server that was just started and had yet to read
# its roles. (kube-apiserver's own cache of a webhook's denials: 30.)
DENIED_TTL = 10.0
# So many `ttl` an answer holds where upstream is there, but does not manage to decide.
FAILING_TTLS = 2
# Of `offline_ttl`, and seconds at most: how long upstream is not asked again about what counts only
# while it does not answer.
GENERAL_PART, LONGEST_GENERAL = 1 / 24, 3600.0
# More callers than a node has pods, and more than they ask about.
MAX_TOKENS = 2048
MAX_DECISIONS = 16384
# Bytes of an identity or decision: hashes, names, the entry (sys.getsizeof, rounded).
ENTRY_BYTES = 700
_IDENTITY, _DECISION, _CLOCK = "user/", "right/", "clock"
# How 0.1.0 kept them, with wall times.
_OBSOLETE = ("identity/", "decision/")

V = TypeVar("V")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class _CachedIdentity:
    """`user_key` identifies all of the user, groups included."""

    user: str
    user_key: str


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    allowed: bool
    reason: str


class AuthorizationCache:
    """`salt` makes the hashes ours; with that of an earlier life, what it kept can be restored.
    `clock` goes on from that life (`saved_clock`). `ttl` and `offline_ttl` in seconds."""

    def __init__(self, *, salt: bytes, ttl: float, offline_ttl: float, clock: OfflineClock) -> None:
        self.salt = salt
        self.clock = clock
        self._ttl = ttl
        self.offline_ttl = offline_ttl
        self._general_ttl = max(ttl, min(GENERAL_PART * offline_ttl, LONGEST_GENERAL))
        self._identities = ExpiringMap(_CachedIdentity, life=offline_ttl, limit=MAX_TOKENS)
        self._decisions = ExpiringMap(_CachedDecision, life=offline_ttl, limit=MAX_DECISIONS)
        self._rejected: OrderedDict[str, float] = OrderedDict()
        # On `clock`: answers from before are asked for again as soon as upstream answers.
        self._online_since = 0.0
        self._obsolete: set[str] = set()
        # Identities and decisions that may have been forged on the disk.
        self._unauthentic: set[str] = set()

    def __len__(self) -> int:
        return len(self._decisions)

    @property
    def size(self) -> int:
        """Bytes."""
        return ENTRY_BYTES * (len(self._identities) + len(self._decisions) + len(self._rejected))

    def judge(
        self,
        token: str,
        attributes: Attributes,
        *,
        now: float,
        is_online: bool,
        is_failing: bool = False,
    ) -> Authorization:
        """`is_failing`: upstream is there, but did not manage to decide: then only its answer of a
        moment ago takes the place of a new one."""
        token_key = self._hash(token)
        if now - self._rejected.get(token_key, -math.inf) < REJECTED_TTL:
            return Undecided.TOKEN_REJECTED
        who = self._good(self._identities.get(token_key), now, is_online=is_online)
        if who is None:
            return Undecided.NEEDS_IDENTITY if is_online else Undecided.UNVERIFIABLE
        if attributes.is_of_secrets and token_key in self._unauthentic:
            return Undecided.NEEDS_IDENTITY if is_online else Undecided.UNVERIFIABLE
        what = self._decision(who.fact, attributes, now, is_online=is_online)
        if what is None and not is_online:
            what = self._in_general(who.fact, attributes, now)
        if what is None:
            return Undecided.NEEDS_DECISION if is_online else Undecided.UNVERIFIABLE
        if is_online:
            left = self._ttl - (self.clock.read(now) - min(who.at, what.at))
            if not what.fact.allowed:
                left = min(left, DENIED_TTL - (self.clock.read(now) - what.at))
        else:
            # The link may be back after another `ttl`.
            left = min(self._ttl, self.offline_ttl - self.clock.without_contact(now))
            if is_failing:
                age = self.clock.read(now) - min(who.at, what.at)
                left = min(left, FAILING_TTLS * self._ttl - age)
                if left <= 0:
                    return Undecided.UNVERIFIABLE
        if what.fact.allowed:
            return Decision(True, now + left)
        return Decision(False, now + left, who.fact.user, what.fact.reason)

    def beside(self, token: str, attributes: Attributes, *, now: float) -> Attributes | None:
        """What upstream is to be asked about as well, for the time when it cannot be: whether the
        caller may get what it wants to read, without regard to names."""
        general = attributes.general_get()
        if general is None:
            return None
        who = self._identities.get(self._hash(token))
        if who is None:
            return general
        wanted, known = (
            self._decisions.get(self._decision_key(who.fact.user_key, each))
            for each in (attributes, general)
        )
        is_denied = wanted is not None and not wanted.fact.allowed
        ttl = self._ttl if is_denied else self._general_ttl
        return None if self._is_new(known, now, ttl=ttl) else general

    def is_due(self, token: str, attributes: Attributes, *, now: float) -> bool:
        """Whether upstream is to be asked about that, which counts only while it does not answer:
        it did not say so lately, to this token."""
        who = self._identities.get(self._hash(token))
        if who is None:
            return True
        known = self._decisions.get(self._decision_key(who.fact.user_key, attributes))
        return not self._is_new(known, now, ttl=self._general_ttl)

    def identified(self, token: str, user: UserInfo, *, now: float) -> None:
        """The token is this user's, upstream answered."""
        user_key = self._hash(json.dumps(astuple(user)))
        token_key = self._hash(token)
        self._unauthentic.discard(token_key)
        self._rejected.pop(token_key, None)
        self.clock.contact(now)
        self._identities.learn(
            token_key, _CachedIdentity(user.name, user_key), now=self.clock.read(now)
        )

    def user(self, token: str) -> str:
        """Whose the token is by upstream's latest answer; "" where there is none."""
        known = self._identities.get(self._hash(token))
        return "" if known is None else known.fact.user

    def rejected(self, token: str, *, now: float) -> None:
        """Upstream knows no such token."""
        self.clock.contact(now)
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
        self.clock.contact(now)
        who = self._identities.get(self._hash(token))
        if who is None:
            return
        key = self._decision_key(who.fact.user_key, attributes)
        self._unauthentic.discard(key)
        self._decisions.learn(key, _CachedDecision(allowed, reason), now=self.clock.read(now))
        if not allowed:
            # That it may read in general is refuted with the first part that it may not.
            for general in attributes.in_general():
                key = self._decision_key(who.fact.user_key, general)
                known = self._decisions.get(key)
                if known is not None and known.fact.allowed:
                    self._decisions.forget(key)

    def connected(self, *, now: float) -> None:
        """Upstream answers again: all is asked again."""
        self.clock.contact(now)
        self._online_since = self.clock.read(now)

    def contact(self, *, now: float) -> None:
        """Upstream answered then, and may have ceased to since: the machine may have slept."""
        self.clock.contact(now)

    # ── what outlives the process ──

    def take_unkept(self, *, now: float) -> dict[str, bytes | None]:
        """What is to be written since the last time; None is to be deleted."""
        horizon = self.clock.contact_at
        found = _joined(
            self._identities.take_unkept(now=horizon), self._decisions.take_unkept(now=horizon)
        )
        found |= dict.fromkeys(self._obsolete)
        self._obsolete.clear()
        return found | ({_CLOCK: self.clock.record(now)} if found else {})

    def clock_record(self, *, now: float) -> dict[str, bytes]:
        """To be kept each minute while upstream does not answer."""
        return {_CLOCK: self.clock.record(now)}

    def snapshot(self, *, now: float) -> dict[str, bytes]:
        """All that is to be kept, as if nothing had been written yet."""
        known = _joined(self._identities.snapshot(), self._decisions.snapshot())
        return known | self.clock_record(now=now)

    def restore(
        self, kept: Mapping[str, bytes], *, now: float, are_authentic: bool = False
    ) -> None:
        """What `take_unkept` gave in an earlier life with the same salt. Without the clock nothing
        says how old it is. `are_authentic`: only this relay can have written it."""
        at = self.clock.read(now)
        self._online_since = at
        self._obsolete = {key for key in kept if key.startswith(_OBSOLETE)}
        if self.clock.is_new:
            self._obsolete |= {key for key in kept if key.startswith((_IDENTITY, _DECISION))}
            return
        identities, decisions = _under(_IDENTITY, kept), _under(_DECISION, kept)
        self._identities.restore(identities, now=at)
        self._decisions.restore(decisions, now=at)
        if not are_authentic:
            self._unauthentic = {*identities, *decisions}

    # ── inside ──

    def _good(
        self, entry: ExpiringEntry[F] | None, now: float, *, is_online: bool
    ) -> ExpiringEntry[F] | None:
        """The entry, unless it is too old."""
        if entry is None:
            return None
        if is_online:
            return entry if self._is_new(entry, now, ttl=self._ttl) else None
        is_over = self.clock.without_contact(now) >= self.offline_ttl
        is_stale = self.clock.contact_at - entry.at >= self.offline_ttl
        return None if is_over or is_stale else entry

    def _is_new(self, entry: ExpiringEntry[F] | None, now: float, *, ttl: float) -> bool:
        """Upstream answered so within `ttl` seconds, and since it answers again."""
        if entry is None:
            return False
        return self.clock.read(now) - entry.at < ttl and entry.at >= self._online_since

    def _decision(
        self, who: _CachedIdentity, attributes: Attributes, now: float, *, is_online: bool
    ) -> ExpiringEntry[_CachedDecision] | None:
        key = self._decision_key(who.user_key, attributes)
        if attributes.is_of_secrets and key in self._unauthentic:
            return None
        found = self._decisions.get(key)
        is_denial = found is not None and not found.fact.allowed
        if is_online and is_denial and not self._is_new(found, now, ttl=DENIED_TTL):
            return None
        return self._good(found, now, is_online=is_online)

    def _in_general(
        self, who: _CachedIdentity, attributes: Attributes, now: float
    ) -> ExpiringEntry[_CachedDecision] | None:
        """That it may read all of it, where upstream allowed that."""
        for general in attributes.in_general():
            found = self._decision(who, general, now, is_online=False)
            if found is not None and found.fact.allowed:
                return found
        return None

    def _decision_key(self, user_key: str, attributes: Attributes) -> str:
        return self._hash(_text_of(user_key, *_texts(attributes)))

    def _hash(self, text: str) -> str:
        return hmac.digest(self.salt, text.encode(), "sha256").hex()


# As astuple does for such fields, at a twentieth of its cost: each request asks.
_texts: Final = attrgetter(*(field.name for field in fields(Attributes)))


@lru(4096)
def _text_of(*texts: str) -> str:
    """Of a user's key, which is a hash, and what the user wants to do."""
    return json.dumps(texts)


def saved_clock(kept: Mapping[str, bytes]) -> bytes | None:
    """The record of the earlier life's `OfflineClock`."""
    return kept.get(_CLOCK)


def _joined(identities: Mapping[str, V], decisions: Mapping[str, V]) -> dict[str, V]:
    return {_IDENTITY + key: value for key, value in identities.items()} | {
        _DECISION + key: value for key, value in decisions.items()
    }


def _under(prefix: str, kept: Mapping[str, bytes]) -> dict[str, bytes]:
    return {
        key.removeprefix(prefix): value for key, value in kept.items() if key.startswith(prefix)
    }
