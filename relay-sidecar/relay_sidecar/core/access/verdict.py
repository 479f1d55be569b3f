"""Whether a caller may do something: what the cache of authorizations answers. Values only."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The userInfo of a SelfSubjectReview; `extra` is sorted by key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Allowed:
    """`until` a moment of the boot clock."""

    until: float


@dataclass(frozen=True, slots=True)
class Denied:
    """`user` is the name, `reason` the authorizer's."""

    user: str
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class NeedsReview:
    """`who`: whose the token is has to be asked too."""

    who: bool


@dataclass(frozen=True, slots=True)
class TokenRejected:
    pass


@dataclass(frozen=True, slots=True)
class Unverifiable:
    pass


Authorization = Allowed | Denied | NeedsReview | TokenRejected | Unverifiable
