"""An administrator who moves the lead by annotations of the Lease, and mains that do not obey.

A fault like the others. What an administrator asks may be applied long after the answer was given
up, so a fault that ends takes off what it asked, as often as that needs.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from tools.nemesis.elector.faults import Draw, LeaseFault, NotApplicable
from tools.nemesis.elector.testbed import DRAIN_TIMEOUT, ElectionTestbed

SWITCHOVER = "edge-sidecars.io/switchover"
HOLD = "edge-sidecars.io/hold"
PRIORITY = "edge-sidecars.io/priority"
ANNOTATIONS = (SWITCHOVER, HOLD, PRIORITY, "edge-sidecars.io/history", "edge-sidecars.io/resumed")
# Nobody of this name contends.
GONE = "pod-99"
# Seconds from a request to the end of what it brought about: the main drains, then the successor
# has the first three.
MOVED_WITHIN = DRAIN_TIMEOUT + 3.5
LONG_HOLD = 3600.0
PRIORITIES = ("0", "1", "7")
# What an administrator's hand makes of an annotation.
GARBAGE = (
    "",
    "7",
    "[" * 600,
    "{" * 100_000,
    '{"to":"pod-1"}',
    '{"to":["pod-1"],"id":"x","until":"2100-01-01T00:00:00Z"}',
    '{"to":"pod-1","id":"x","until":"9999-12-31T23:59:59Z"}',
    '{"to":"pod-1","id":"x","until":"1970-01-01T00:00:00Z","more":{}}',
    '{"to":"Pod 1","id":"\\ud800","until":"2100-01-01T00:00:00Z"}',
    '[{"holder":"\\ud800","from":"0001-01-01T00:00:00+23:59"}]',
    "9" * 400,
    "-1",
    "nan",
)
# Seconds that a write is repeated for; an API server that was killed is back by then.
PATIENCE = 60.0


def _until(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _annotate(testbed: ElectionTestbed, name: str, text: str | None) -> None:
    """As `kubectl annotate` does. Raises NotApplicable without a Lease, OSError where it may have
    been applied or not."""
    body = {"metadata": {"annotations": {name: text}}}
    status, answer = testbed.plane.admin.patch(testbed.path, body)
    if status == 404:
        raise NotApplicable
    if status in (409, 429) or status >= 500:
        raise OSError(f"{status}: {answer}")
    assert status == 200, answer


def take_off(testbed: ElectionTestbed, *names: str) -> None:
    """Until it is done; a Lease that is gone has none."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            for name in names:
                _annotate(testbed, name, None)
            return
        except NotApplicable:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


@contextmanager
def _asked(testbed: ElectionTestbed, name: str, text: str) -> Iterator[None]:
    try:
        try:
            _annotate(testbed, name, text)
        except OSError:  # it may be applied
            time.sleep(1.0)
        yield
    finally:
        take_off(testbed, name)


def _switchover(to: Callable[[ElectionTestbed, Draw], str]) -> LeaseFault:
    @contextmanager
    def fault(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
        asked = {"to": to(testbed, draw), "id": str(uuid.uuid4()), "until": _until(30.0)}
        with _asked(testbed, SWITCHOVER, json.dumps(asked)):
            yield
            time.sleep(max(MOVED_WITHIN - draw.seconds, 0.0))

    return fault


def _any_pod(testbed: ElectionTestbed, draw: Draw) -> str:
    names = [each.name for each in testbed.candidates]
    return names[int(draw.luck * len(names))]


@contextmanager
def switchover_to_frozen(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    """The successor is asked for by name, and does not hear it."""
    pod = next(each for each in testbed.candidates if each.name == draw.target)
    pod.freeze()
    try:
        with _switchover(lambda _, it: it.target)(testbed, draw):
            yield
    finally:
        pod.thaw()


def _hold(length: Callable[[Draw], float]) -> LeaseFault:
    @contextmanager
    def fault(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
        asked = {"id": str(uuid.uuid4()), "until": _until(length(draw))}
        with _asked(testbed, HOLD, json.dumps(asked)):
            yield

    return fault


@contextmanager
def garble(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    which = int(draw.luck * len(ANNOTATIONS) * len(GARBAGE))
    name, text = ANNOTATIONS[which % len(ANNOTATIONS)], GARBAGE[which // len(ANNOTATIONS)]
    with _asked(testbed, name, text):
        yield


@contextmanager
def strip(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    """All of ours are taken off by hand."""
    take_off(testbed, *ANNOTATIONS)
    yield


def _drain(status: int) -> LeaseFault:
    """No main says that it has stopped: 0, it hangs."""

    @contextmanager
    def fault(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
        main = testbed.mains[int(draw.luck * len(testbed.mains))]
        main.drain = status
        try:
            yield
        finally:
            main.drain = 200

    return fault


MOVES: dict[str, LeaseFault] = {
    "switchover": _switchover(_any_pod),
    "switchover-to-any": _switchover(lambda _, __: ""),
    "switchover-to-gone": _switchover(lambda _, __: GONE),
    "hold": _hold(lambda _: LONG_HOLD),
    "hold-for": _hold(lambda draw: draw.seconds / 2),
    "hold-in-the-past": _hold(lambda _: -LONG_HOLD),
    "garble": garble,
    "strip": strip,
}
FROZEN = "switchover-to-frozen"
MAIN: dict[str, LeaseFault] = {"drain-refused": _drain(500), "drain-hangs": _drain(0)}


def touched(kind: str) -> set[str]:
    """What a move holds while it lasts, so that none takes off what another one asked."""
    if kind.startswith("hold"):
        return {HOLD}
    return {SWITCHOVER} if kind.startswith("switchover") else {SWITCHOVER, HOLD}
