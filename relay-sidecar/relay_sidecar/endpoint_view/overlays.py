"""Which endpoints are shown otherwise than upstream has them, and when that changes.

    upstream's ──(its node is silent here)──────────────────────────► SILENT: not ready
         ▲  │                                                            │
         │  └──(ready before a long outage, now not; its node is alive)─►│KEPT: ready
         └──(the node answers; 30 s are over; upstream shows it terminating, ready again, gone)

Guarantees: an endpoint is shown ready only where upstream has it ready, or had it so when a long
outage began and has shown it neither terminating nor gone nor ready again since; without verdicts
all is upstream's. What an overlay changes about an endpoint is at most once per `TELL_EVERY`, but
what upstream changes is shown at once. Knows no versions but how many changes there is room for.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from edge_sidecars.apimachinery.objects import Key
from relay_sidecar.core.verdicts import Verdicts
from relay_sidecar.endpoint_view.endpoint_slice import (
    Endpoint,
    EndpointId,
    Overlay,
    read_endpoints,
    rendered,
)

# Seconds (pool.md 5): a shorter outage marks nothing; kubelets need as long to tell of their pods.
LONG_OUTAGE: Final = 30.0
KEEP: Final = 30.0
# Seconds between two changes of one endpoint by an overlay.
TELL_EVERY: Final = 2.0


class _Slice:
    """`kept`: endpoints that were ready before the outage, and whether upstream has shown them not
    ready since. `changed_at`: when an overlay last changed an endpoint."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.endpoints = read_endpoints(raw)
        self.nodes = frozenset(it.node for it in self.endpoints.values())
        self.shown: dict[EndpointId, Overlay] = {}
        self.kept: dict[EndpointId, bool] = {}
        self.changed_at: dict[EndpointId, float] = {}

    def show(self, shown: dict[EndpointId, Overlay], now: float) -> None:
        for id in self.shown.keys() | shown.keys():
            if self.shown.get(id) is not shown.get(id):
                self.changed_at[id] = now
        self.shown = shown

    def told_at(self, id: EndpointId) -> float:
        return self.changed_at.get(id, -math.inf)

    def was_ready(self, *, is_kept: bool) -> None:
        """What is ready now may be kept from here on, beside what still is."""
        before = self.kept if is_kept else {}
        ready = {
            id: False
            for id, it in self.endpoints.items()
            if it.uid and it.is_ready and not it.is_terminating
        }
        self.kept = before | ready

    def follow(self, old: "_Slice") -> None:
        """It takes the place of an older state."""
        self.changed_at = {id: at for id, at in old.changed_at.items() if id in self.endpoints}
        for id, was_down in old.kept.items():
            it = self.endpoints.get(id)
            if it is not None and not it.is_terminating and not (it.is_ready and was_down):
                self.kept[id] = was_down or not it.is_ready


class EndpointOverlays:
    """Times are of one clock that goes on while the machine sleeps."""

    def __init__(self) -> None:
        self._slices: dict[Key, _Slice] = {}
        self._overlaid: set[Key] = set()
        self._pending: set[Key] = set()
        self._verdicts: Verdicts | None = None
        self._outage_since: float | None = None
        self._keep_until = -math.inf
        # Of `KEEP`, when an outage began meanwhile.
        self._keep_left = 0.0
        # There is no room for changes until upstream moves.
        self._stands_still = False

    @property
    def overlaid(self) -> int:
        """Slices that are shown otherwise than upstream has them."""
        return len(self._overlaid)

    def count(self, overlay: Overlay) -> int:
        """Endpoints."""
        shown = (self._slices[key].shown.values() for key in self._overlaid)
        return sum(it is overlay for each in shown for it in each)

    def is_overlaid(self, key: Key) -> bool:
        return key in self._overlaid

    def rendered(self, key: Key) -> bytes:
        """The slice as it is shown."""
        found = self._slices[key]
        return rendered(found.raw, found.shown)

    # ── what happens ──

    def judge(self, verdicts: Verdicts | None) -> None:
        """What is thought of the neighbours now; None: nothing is known."""
        old, self._verdicts = self._verdicts, verdicts
        if old == verdicts:
            return
        if old is None or verdicts is None:
            self._pending.update(self._slices)
            return
        nodes = (old.silent ^ verdicts.silent) | (old.alive ^ verdicts.alive)
        self._pending.update(k for k, it in self._slices.items() if not nodes.isdisjoint(it.nodes))

    def outage_began(self, now: float, *, heard_at: float) -> None:
        """What happens upstream does not come here now; `heard_at`: when upstream was there last,
        minus infinity for an outage that began before this process did."""
        if self._outage_since is None:
            self._keep_left = max(self._keep_until - now, 0.0)
            self._outage_since = heard_at
        self._outage_since = min(self._outage_since, heard_at)

    def outage_ended(self, now: float) -> None:
        """To be called before what came after it."""
        if self._outage_since is None:
            return
        is_long = now - self._outage_since > LONG_OUTAGE
        self._outage_since = None
        self._keep_until = now + (KEEP if is_long else self._keep_left)
        if is_long:
            for found in self._slices.values():
                found.was_ready(is_kept=self._keep_left > 0)

    def replace(self, slices: Iterable[tuple[Key, bytes]], now: float) -> None:
        """Upstream's whole state."""
        found = dict(slices)
        for key in self._slices.keys() - found.keys():
            self.take(key, None, now)
        for key, raw in found.items():
            self.take(key, raw, now)

    def take(self, key: Key, raw: bytes | None, now: float) -> None:
        """Upstream's state of one slice, None: it is gone."""
        old = self._slices.pop(key, None)
        self._pending.discard(key)
        self._overlaid.discard(key)
        if raw is None:
            return
        new = self._slices[key] = _Slice(raw)
        if old is not None:
            new.follow(old)
            new.shown = {id: it for id, it in old.shown.items() if id in new.endpoints}
        shown = self._next(key, new, {} if old is None else old.endpoints, now)
        self._show(key, new, shown, now)

    def upstream_moved(self) -> None:
        """There is room for changes again."""
        if self._stands_still:
            self._stands_still = False
            self._pending.update(self._slices)

    # ── what follows ──

    def due(self, now: float, *, room: int) -> list[Key]:
        """The slices that are shown otherwise from now on, without a change upstream. There are
        never more than `room`, which is enough to show upstream's state of all later."""
        if not self._keeps(now):
            for key, found in self._slices.items():
                if found.kept:
                    found.kept = {}
                    self._pending.add(key)
        pending, self._pending = self._pending, set()
        after: dict[Key, dict[EndpointId, Overlay]] = {}
        for key in pending:
            found = self._slices[key]
            shown = self._next(key, found, found.endpoints, now)
            if shown != found.shown:
                after[key] = shown
        if not self._fits(after, room):
            self._stands_still = True
            after, self._pending = {key: {} for key in self._overlaid}, set()
        for key, shown in after.items():
            self._show(key, self._slices[key], shown, now)
        return list(after)

    def due_at(self, now: float) -> float:
        """When something may change by itself; infinity: never."""
        moments = [
            at + TELL_EVERY
            for key in self._pending
            for at in self._slices[key].changed_at.values()
            if at + TELL_EVERY > now
        ]
        if self._outage_since is None and any(it.kept for it in self._slices.values()):
            moments.append(self._keep_until)
        return min(moments, default=math.inf)

    def _next(
        self, key: Key, it: _Slice, unchanged: Mapping[EndpointId, Endpoint], now: float
    ) -> dict[EndpointId, Overlay]:
        """What is to be shown of it; `unchanged`: endpoints as they were shown last."""
        shown: dict[EndpointId, Overlay] = {}
        for id, endpoint in it.endpoints.items():
            overlay, had = self._wanted(it, id, endpoint, now), it.shown.get(id)
            is_early = now < it.told_at(id) + TELL_EVERY and unchanged.get(id) == endpoint
            if overlay is not had and is_early:
                overlay = had
                self._pending.add(key)
            if overlay is not None:
                shown[id] = overlay
        return shown

    def _wanted(self, found: _Slice, id: EndpointId, it: Endpoint, now: float) -> Overlay | None:
        if self._verdicts is None or self._stands_still:
            return None
        if it.node in self._verdicts.silent:
            return Overlay.SILENT if it.is_ready or it.is_serving else None
        is_kept = (
            id in found.kept
            and self._keeps(now)
            and it.node in self._verdicts.alive
            and not it.is_ready
            and not it.is_terminating
        )
        return Overlay.KEPT if is_kept else None

    def _keeps(self, now: float) -> bool:
        """Time that upstream is out of reach does not count."""
        if self._outage_since is not None:
            return self._keep_left > 0
        return now < self._keep_until

    def _fits(self, after: dict[Key, dict[EndpointId, Overlay]], room: int) -> bool:
        overlaid = self._overlaid - after.keys() | {key for key, shown in after.items() if shown}
        return not after or len(after) + len(overlaid) <= room

    def _show(self, key: Key, it: _Slice, shown: dict[EndpointId, Overlay], now: float) -> None:
        it.show(shown, now)
        (self._overlaid.add if shown else self._overlaid.discard)(key)
