"""Every fault that the nemesis knows, as a context manager: entered it holds, left it ends.

A fault touches one resource (a candidate's process, its way to the API server, the API server, the
Lease), so that faults of different resources may hold at once. A fault that does not apply to the
present state says so by NotApplicable and does nothing.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from edge_sidecars.runtime.formats import rfc3339
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION
from tools.harness.pods.observers.history import FOREIGN_FACTOR
from tools.nemesis.elector.testbed import BOGUS, Candidate, ElectionTestbed, Testbed

# Seconds that an elector may take to end in order: two request time-outs and a stopped loop.
END_TIMEOUT = 20.0


class NotApplicable(Exception):
    """There is nothing to do such a fault to."""


class Misbehaviour(Exception):
    """A candidate did not do what it must whatever happens."""


@dataclass(frozen=True)
class Draw:
    """What chance decided: `luck` in [0, 1) for details, `seconds` for how long it holds."""

    kind: str
    target: str
    seconds: float
    luck: float


Fault = Callable[[Testbed, Draw], AbstractContextManager[None]]
LeaseFault = Callable[[ElectionTestbed, Draw], AbstractContextManager[None]]


# ── processes ──


def candidate_of(testbed: Testbed, draw: Draw) -> Candidate:
    return next(each for each in testbed.candidates if each.name == draw.target)


@contextmanager
def kill(testbed: Testbed, draw: Draw) -> Iterator[None]:
    candidate = candidate_of(testbed, draw)
    candidate.kill()
    yield
    candidate.start()


@contextmanager
def freeze(testbed: Testbed, draw: Draw) -> Iterator[None]:
    candidate = candidate_of(testbed, draw)
    candidate.freeze()
    yield
    candidate.thaw()


@contextmanager
def terminate(testbed: Testbed, draw: Draw) -> Iterator[None]:
    """SIGTERM: with --release-on-term it releases."""
    candidate = candidate_of(testbed, draw)
    candidate.terminate()
    yield
    await_end(candidate)
    candidate.start()


@contextmanager
def freeze_terminated(testbed: Testbed, draw: Draw) -> Iterator[None]:
    """SIGTERM waits for the frozen process to wake (hazard H4)."""
    candidate = candidate_of(testbed, draw)
    candidate.freeze()
    candidate.terminate()
    yield
    candidate.thaw()
    await_end(candidate)
    candidate.start()


def await_end(candidate: Candidate) -> None:
    """P5: the first SIGTERM ends an elector with 0. client-go may hang in its release."""
    try:
        status = candidate.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired as error:
        if isinstance(candidate, ElectorPod):
            raise Misbehaviour(f"{candidate.name} does not end: {candidate.log_text()}") from error
        candidate.kill()
        return
    if isinstance(candidate, ElectorPod) and not candidate.is_orderly(status):
        raise Misbehaviour(f"{candidate.name} ended with {status}: {candidate.log_text()}")


# ── the way to the API server ──


def _network(cut: Callable[[FaultProxy, Draw], None]) -> Fault:
    @contextmanager
    def fault(testbed: Testbed, draw: Draw) -> Iterator[None]:
        link = testbed.links[draw.target]
        cut(link, draw)
        yield
        link.heal()

    return fault


def _delay_of(draw: Draw) -> float:
    """Seconds each way: a third below 0.3, a third below 1, a third up to beyond the lease."""
    third, rest = divmod(draw.luck * 3, 1)
    low, high = ((0.05, 0.3), (0.3, 1.0), (1.0, FAST_DURATION + 1.0))[int(third)]
    return low + rest * (high - low)


def _jitter_of(draw: Draw) -> float:
    return _delay_of(draw) / 2


# ── the API server ──


@contextmanager
def freeze_server(testbed: Testbed, draw: Draw) -> Iterator[None]:
    testbed.plane.freeze()
    yield
    testbed.plane.thaw()


@contextmanager
def kill_server(testbed: Testbed, draw: Draw) -> Iterator[None]:
    testbed.plane.stop_apiserver()
    yield
    testbed.plane.start_apiserver()


# ── the Lease, as an administrator ──


def _is_ours(holder: str) -> bool:
    return holder.startswith("pod-")


def _holder(testbed: ElectionTestbed) -> tuple[str, str]:
    """Holder and resourceVersion."""
    lease = testbed.read()
    if lease is None:
        raise NotApplicable
    return lease.get("spec", {}).get("holderIdentity") or "", lease["metadata"]["resourceVersion"]


def _patch(testbed: ElectionTestbed, version: str, **patch: object) -> None:
    """Of exactly that version, else not at all."""
    metadata = patch.pop("metadata", None) or {}
    assert isinstance(metadata, dict)
    body = {**patch, "metadata": {**metadata, "resourceVersion": version}}
    status, answer = testbed.plane.admin.patch(testbed.path, body)
    if status in (404, 409):
        raise NotApplicable
    assert status == 200, answer


@contextmanager
def label(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    """Edited again and again while it lasts: the spec does not change."""
    _, version = _holder(testbed)
    _patch(testbed, version, metadata={"labels": {"edited": str(int(draw.luck * 1e6))}})
    yield


@contextmanager
def blank(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    """As client-go's release of a Lease that is not its own any more: the annotation stays."""
    holder, version = _holder(testbed)
    if not _is_ours(holder):
        raise NotApplicable
    _patch(testbed, version, spec={"holderIdentity": "", "leaseDurationSeconds": 1})
    yield


@contextmanager
def shorten(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    holder, version = _holder(testbed)
    if not _is_ours(holder):
        raise NotApplicable
    _patch(testbed, version, spec={"leaseDurationSeconds": 1})
    yield


@contextmanager
def steal(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    """By a holder that never comes back; it ends when the bogus claim has expired."""
    _, version = _holder(testbed)
    duration = int(FAST_DURATION) + round(draw.luck)
    stamp = rfc3339.stamp_now("microseconds")
    spec = {
        "holderIdentity": f"{BOGUS}-{draw.luck:.6f}",
        "leaseDurationSeconds": duration,
        "acquireTime": stamp,
        "renewTime": stamp,
    }
    _patch(testbed, version, spec=spec)
    yield
    time.sleep(max(duration * FOREIGN_FACTOR - draw.seconds, 0.0))


@contextmanager
def delete(testbed: ElectionTestbed, draw: Draw) -> Iterator[None]:
    status, answer = testbed.plane.admin.delete(testbed.path)
    if status == 404:
        raise NotApplicable
    assert status == 200, answer
    yield


def recreate(testbed: ElectionTestbed, known: set[str]) -> None:
    """Deleted and created empty: free at once for whoever knows of no holder, hence only where
    every elector says that it knows the holder."""
    lease = testbed.read()
    holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
    told = [pod.ask("/leader") for pod in testbed.fleet.pods]
    if lease is None or not _is_ours(holder):
        raise NotApplicable
    if any(answer is None or answer.json()["holder"] != holder for answer in told):
        raise NotApplicable
    status, answer = testbed.plane.admin.delete(testbed.path)
    assert status == 200, answer
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": testbed.fleet.lease, "namespace": testbed.namespace},
    }
    status, answer = testbed.plane.admin.post(testbed.collection, body)
    if status == 201:  # 409: the leader was quicker
        known.add(answer["metadata"]["uid"])


PROCESS: dict[str, Fault] = {
    "kill": kill,
    "freeze": freeze,
    "terminate": terminate,
    "freeze-terminated": freeze_terminated,
}
NETWORK: dict[str, Fault] = {
    "refuse": _network(lambda link, draw: link.refuse()),
    "reset": _network(lambda link, draw: link.reset()),
    "black-hole": _network(lambda link, draw: link.black_hole()),
    "delay": _network(lambda link, draw: link.delay(_delay_of(draw), jitter=_jitter_of(draw))),
    "delay-request": _network(lambda link, draw: link.delay_request(_delay_of(draw))),
    "delay-response": _network(lambda link, draw: link.delay_response(_delay_of(draw))),
    "lose-response": _network(lambda link, draw: link.lose_response(reset=draw.luck < 0.5)),
    "lose-one-response": _network(
        lambda link, draw: link.lose_response(connections=1, reset=draw.luck < 0.5)
    ),
}
SERVER: dict[str, Fault] = {"freeze-server": freeze_server, "kill-server": kill_server}
LEASE: dict[str, LeaseFault] = {
    "label": label,
    "blank": blank,
    "shorten": shorten,
    "steal": steal,
    "delete": delete,
}
RECREATE = "recreate"
