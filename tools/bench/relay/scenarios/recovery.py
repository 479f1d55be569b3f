"""A link that is cut while 500 things change, and how soon an informer has all of them afterwards.

Beside it, the same informer at the API server behind a link that is cut likewise. Guarantees: the
informer is compared with a consistent list, object by object; deletions are among the changes.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from tools.bench.pace import TookTooLong, sleep, wait_for
from tools.bench.progress import say
from tools.bench.relay.kubeconfigs import relay_kubeconfig
from tools.bench.relay.world import USER_AGENT, World
from tools.bench.runner import Options
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.peers.informers import InformerProcess, spec
from tools.harness.relay_objects import Contents

PODS = 1000
UPDATED, DELETED, CREATED = 300, 100, 100
CHANGES = UPDATED + DELETED + CREATED
CONVERGENCE_TIMEOUT = 60.0
SYNC_TIMEOUT = 30.0
POLL_INTERVAL = 0.02
# Before the cut, so that all is quiet, and after convergence, for a relist that comes late.
SETTLE = 2.0
INFORMER_AGENT = "bench-informer"
CUTS: dict[str, Callable[[FaultProxy], None]] = {
    "refused": FaultProxy.refuse,
    "black-hole": FaultProxy.black_hole,
}


def recoveries(world: World, options: Options) -> list[Result]:
    results: list[Result] = []
    for name in CUTS:
        pair = Result(f"recovery-{name}", OURS), Result(f"recovery-{name}", REFERENCE)
        for run in range(options.runs):
            _run(world, options, name, run, *pair)
        results += pair
    return results


def _run(world: World, options: Options, name: str, run: int, ours: Result, theirs: Result) -> None:
    """Both sides at once: one set of changes, one cut."""
    pods = world.pods(PODS, purpose=f"recovery-{name}-{run}")
    contents = Contents(world.plane, pods.namespace)
    with ExitStack() as stack:
        sides = [
            stack.enter_context(_Side(world, result, pods.namespace)) for result in (ours, theirs)
        ]
        sleep(SETTLE)
        for side in sides:
            CUTS[name](side.link)
        cut_at = time.monotonic()
        _change(contents, run)
        sleep(cut_at + options.cut - time.monotonic())
        expected = contents.hash("pods")
        for side in sides:
            side.heal()
        _wait_equal(sides, expected)
        sleep(SETTLE)
        for side in sides:
            side.finish()


def _wait_equal(sides: "list[_Side]", expected: str) -> None:
    """Or until it takes too long, which `finish` tells."""
    with suppress(TookTooLong):
        wait_for(
            lambda: sum(side.is_equal(expected) for side in sides) == len(sides),
            timeout=CONVERGENCE_TIMEOUT,
            what="informers equal to upstream",
            interval=POLL_INTERVAL,
        )


class _Side:
    """One informer with its link."""

    def __init__(self, world: World, result: Result, namespace: str) -> None:
        self._world = world
        self._result = result
        self._spec = spec("typed", "pods", namespace=namespace)
        self._stack = ExitStack()
        self._sample: Sample = {}

    def __enter__(self) -> "_Side":
        with ExitStack() as stack:
            self.link = stack.enter_context(FaultProxy(self._world.plane.port))
            kubeconfig = self._world.plane.admin_kubeconfig(server=self.link.url)
            self._agent = f"{INFORMER_AGENT}-{self._result.side}"
            self._informer_agent = self._agent
            if self._result.side == OURS:
                relay = stack.enter_context(self._world.relay(link=self.link))
                kubeconfig = relay_kubeconfig(self._world.folder, relay.url)
                self._agent = USER_AGENT
            self._informer = InformerProcess(
                kubeconfig, [self._spec], user_agent=self._informer_agent
            )
            stack.enter_context(self._informer)
            self._world.guard(self._informer.pid)
            self._informer.wait_synced(timeout=SYNC_TIMEOUT)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def heal(self) -> None:
        [self._before] = self._informer.stats()
        self._traffic = self.link.traffic()
        self._healed_at = time.time()
        self.link.heal()

    def is_equal(self, expected: str) -> bool:
        """Noted when it is for the first time."""
        if "converged" not in self._sample and self._informer.states()[0].hash == expected:
            self._sample["converged"] = time.time() - self._healed_at
            now = self.link.traffic().response_bytes
            self._sample["bytes"] = float(now - self._traffic.response_bytes)
        return "converged" in self._sample

    def finish(self) -> None:
        [after] = self._informer.stats()
        self._result.failures += after["violations"]
        if "converged" not in self._sample:
            self._result.failures.append(f"not equal after {CONVERGENCE_TIMEOUT:g} s")
        self._sample |= {
            "upstream_lists": float(self._requests("list")),
            "upstream_watches": float(self._requests("watch")),
            "informer_relists": float(after["completeSets"] - self._before["completeSets"]),
            "deleted": float(after["deleted"]),
        }
        if after["deleted"] != DELETED:
            self._result.failures.append(f"{after['deleted']} deletions, not {DELETED}")
        self._result.samples.append(self._sample)
        said = " ".join(f"{key}={value:.4g}" for key, value in self._sample.items())
        say(f"{self._result.scenario} {self._result.side}: {said}")

    def _requests(self, verb: str) -> int:
        return self._world.plane.count_requests(
            verb=verb, resource="pods", user_agent=self._agent, since=self._healed_at
        )


def _change(contents: Contents, run: int) -> None:
    """Each pod has one change at most."""
    for number in range(UPDATED):
        contents.edit("pods", f"pod-{number:05}", {"metadata": {"labels": {"changed": str(run)}}})
    for number in range(UPDATED, UPDATED + DELETED):
        contents.delete("pods", f"pod-{number:05}")
    for number in range(CREATED):
        contents.pod(f"new-{number:05}")
