"""An API server as far as lists and watches of one resource go: in memory, in the bytes it sends.

Every write has a revision of its own, but for a lease that ends with several objects. History can
be compacted; then old versions and continue tokens are `Gone`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.selection.attrs import Attrs
from tests.unit.relay.streams.samples import bookmark_line, encoded, line, pod

NAMESPACE = "default"


@dataclass(frozen=True)
class Thing:
    name: str
    version: int
    uid: str
    app: str
    tier: str

    @property
    def key(self) -> Key:
        return (NAMESPACE, self.name)

    @property
    def labels(self) -> dict[str, str]:
        # Its size matters to windows.
        return {"app": self.app, "tier": self.tier, "padding": "x" * 600}

    @property
    def raw(self) -> bytes:
        return pod(self.name, self.version, labels=self.labels, uid=self.uid)


@dataclass(frozen=True)
class Selector:
    """What is "" is not asked for."""

    app: str = ""
    tier: str = ""
    name: str = ""

    def shows(self, thing: Thing | None) -> bool:
        return thing is not None and self._is(thing.name, thing.app, thing.tier)

    def matches(self, item: Item) -> bool:
        labels = Attrs(item.raw).labels
        return self._is(item.key[1], labels["app"], labels["tier"])

    def covers(self, other: "Selector") -> bool:
        return all(
            mine in ("", theirs)
            for mine, theirs in (
                (self.app, other.app),
                (self.tier, other.tier),
                (self.name, other.name),
            )
        )

    def _is(self, name: str, app: str, tier: str) -> bool:
        return self.name in ("", name) and self.app in ("", app) and self.tier in ("", tier)


@dataclass(frozen=True)
class Write:
    revision: int
    before: Thing | None
    after: Thing | None


class Gone(Exception):
    """410."""


@dataclass
class Upstream:
    revision: int = 10
    compacted: int = 0
    writes: list[Write] = field(default_factory=list)
    _things: dict[str, Thing] = field(default_factory=dict)

    def perform(self, drawn: Iterable[tuple[str, ...]]) -> None:
        """What `writes` drew."""
        for kind, *names in drawn:
            if kind == "put":
                self.put(*names)
            else:
                self.delete(*names)

    def put(self, name: str, app: str, tier: str) -> None:
        self.revision += 1
        before = self._things.get(name)
        uid = before.uid if before else f"uid-{self.revision}"
        after = Thing(name, self.revision, uid, app, tier)
        self._things[name] = after
        self.writes.append(Write(self.revision, before, after))

    def delete(self, *names: str) -> list[Thing]:
        """All at one revision, as when a lease ends."""
        known = [self._things.pop(name) for name in names if name in self._things]
        self.revision += bool(known)
        self.writes += [Write(self.revision, thing, None) for thing in known]
        return known

    def tick(self) -> None:
        """Something else in etcd is written."""
        self.revision += 1

    def compact(self) -> None:
        self.compacted = self.revision

    def state(self, selector: Selector, revision: int) -> dict[Key, bytes]:
        things: dict[str, Thing] = {}
        for write in self.writes:
            if write.revision > revision:
                break
            if write.after is not None:
                things[write.after.name] = write.after
            elif write.before is not None:
                del things[write.before.name]
        shown = sorted(things.values(), key=lambda thing: thing.name)
        return {thing.key: thing.raw for thing in shown if selector.shows(thing)}

    def page(self, selector: Selector, token: str, limit: int) -> bytes:
        """Raises `Gone` for the token of a list that is compacted."""
        revision, start = self.revision, ""
        if token:
            version, start = token.split("/")
            revision = int(version)
            if revision < self.compacted:
                raise Gone
        state = self.state(selector, revision)
        rest = [raw for (_, name), raw in state.items() if name >= start]
        shown = rest[:limit] if limit else rest
        names = [name for _, name in state if name >= start]
        following = f"{revision}/{names[limit]}" if limit and len(rest) > limit else ""
        prefix = b'{"kind":"Pod","apiVersion":"v1",'
        meta = encoded({"resourceVersion": str(revision), "continue": following})
        return b'{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[%s]}' % (
            meta,
            b",".join(b"{" + raw.removeprefix(prefix) for raw in shown),
        )

    def lines(self, selector: Selector, after: int) -> list[tuple[int, bytes]]:
        """The events of a watch with their revisions. Raises `Gone`."""
        if after < self.compacted:
            raise Gone
        told = [(w.revision, _told(w, selector)) for w in self.writes if w.revision > after]
        return [(revision, event) for revision, event in told if event]

    def bookmark(self) -> bytes:
        return bookmark_line(self.revision)


def expired_line() -> bytes:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    return line("ERROR", encoded(status))


NAMES = st.sampled_from("abcde")


def puts() -> st.SearchStrategy[tuple[str, ...]]:
    """Of (name, app, tier)."""
    apps, tiers = st.sampled_from(["web", "db"]), st.sampled_from(["front", "back"])
    return st.tuples(st.just("put"), NAMES, apps, tiers)


def writes() -> st.SearchStrategy[tuple[str, ...]]:
    """A put, or a deletion of one name or of several at once."""
    deletions = st.lists(NAMES, min_size=1, max_size=2, unique=True)
    return puts() | puts() | deletions.map(lambda gone: ("delete", *gone))


def _told(write: Write, selector: Selector) -> bytes:
    """As kube-apiserver's convertToWatchEvent does; b"" for nothing."""
    was_in = selector.shows(write.before)
    if write.after is not None and selector.shows(write.after):
        return line("MODIFIED" if was_in else "ADDED", write.after.raw)
    if was_in and write.before is not None:
        return line("DELETED", replace(write.before, version=write.revision).raw)
    return b""
