"""Crashes after which a process goes on, other priorities, and what befalls a wrapped program."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from elector_sidecar.wrapped.guard import send
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.wrapped.pod import DEAF, OBEDIENT, WrappedPod
from tools.nemesis.elector.faults import Draw, Fault, NotApplicable, await_end, candidate_of
from tools.nemesis.elector.moves import PRIORITIES
from tools.nemesis.elector.testbed import Testbed


@contextmanager
def crash(testbed: Testbed, draw: Draw) -> Iterator[None]:
    """Kubelet has it back within a second, on the same port: the lead may be gone on with."""
    candidate = candidate_of(testbed, draw)
    candidate.kill()
    time.sleep(draw.luck)
    candidate.start()
    yield


@contextmanager
def reprioritize(testbed: Testbed, draw: Draw) -> Iterator[None]:
    """As a rollout that changes the priority of one replica."""
    pod = candidate_of(testbed, draw)
    if not isinstance(pod, ElectorPod):
        raise NotApplicable
    pod.terminate()
    await_end(pod)
    kept = [it for it in pod.flags if not it.startswith("--priority=")]
    pod.flags = [*kept, f"--priority={PRIORITIES[int(draw.luck * len(PRIORITIES))]}"]
    pod.start()
    yield


def _wrapped(testbed: Testbed, draw: Draw) -> WrappedPod:
    pod = candidate_of(testbed, draw)
    if not isinstance(pod, WrappedPod):
        raise NotApplicable
    return pod


def _guard(of: Callable[[int], None]) -> Fault:
    @contextmanager
    def fault(testbed: Testbed, draw: Draw) -> Iterator[None]:
        guard = _wrapped(testbed, draw).guard
        if guard is None:
            raise NotApplicable
        of(guard)
        yield
        send(guard, signal.SIGCONT)

    return fault


@contextmanager
def freeze_pod(testbed: Testbed, draw: Draw) -> Iterator[None]:
    pod = _wrapped(testbed, draw)
    pids = pod.freeze_pod()
    yield
    pod.thaw_pod(pids)


@contextmanager
def rewrap(testbed: Testbed, draw: Draw) -> Iterator[None]:
    """Ended and begun with the other kind of program."""
    pod = _wrapped(testbed, draw)
    pod.terminate()
    await_end(pod)
    pod.wraps(DEAF if draw.luck < 0.5 else OBEDIENT)
    pod.start()
    yield


RESTARTS: dict[str, Fault] = {"crash": crash, "reprioritize": reprioritize}
WRAPPED: dict[str, Fault] = {
    "freeze-guard": _guard(lambda pid: os.kill(pid, signal.SIGSTOP)),
    "freeze-pod": freeze_pod,
    "kill-guard": _guard(lambda pid: os.kill(pid, signal.SIGKILL)),
    "rewrap": rewrap,
}
