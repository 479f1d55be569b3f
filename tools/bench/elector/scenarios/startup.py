"""From exec to the first HTTP answer, and to leading a Lease that was released."""

import socket

from tools.bench.elector.poller import REQUEST, Contender, boottime
from tools.bench.elector.side import CLIENT_GO_TIMING, World
from tools.bench.pace import TookTooLong, sleep
from tools.bench.process import AS_IN_IMAGES, cpu_seconds
from tools.bench.progress import say
from tools.bench.samples import OURS, REFERENCE, Result, Sample
from tools.harness.controlplane.reservation import Reservation
from tools.harness.peers.candidate import CandidatePod
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.fleet import Fleet, kubeconfig

TIMEOUT = 30.0
ASK_INTERVAL = 0.002
ANSWER_TIMEOUT = 5.0
# What client-go's release leaves behind; ours is the same (P6).
RELEASED = {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1}
# The machine calms down between two starts.
PAUSE = 0.5


def startups(world: World, *, runs: int) -> list[Result]:
    """One process at a time, alternating."""
    say(f"startup: {runs} runs, one process at a time")
    namespace = world.plane.create_namespace("bench")
    results = [
        Result("startup", kind, facts={"beside": "startup: one process at a time"})
        for kind in (OURS, REFERENCE)
    ]
    for run in range(runs):
        for result in results:
            result.samples.append(_start(world, namespace, result.side, run))
            sleep(PAUSE)
    for result in results:
        for key in ("first_answer", "leading", "cpu"):
            values = " ".join(f"{value:.3f}" for value in result.values(key))
            say(f"startup {result.side} {key}: {values}")
    return results


def _start(world: World, namespace: str, kind: str, run: int) -> Sample:
    lease = Fleet(world.plane, namespace, lease=f"{kind}-{run}")
    lease.create_empty_lease()
    lease.edit(spec=RELEASED)
    port = Reservation()
    pod = _pod(world, lease, kind, port.port)
    try:
        started_at = boottime()
        pod.start(wait=False)
        world.guard(pod.pid)
        first = _await(port.port, is_200=False)
        cpu = cpu_seconds(pod.pid)
        leading = _await(port.port, is_200=True)
        return {"first_answer": first - started_at, "leading": leading - started_at, "cpu": cpu}
    finally:
        pod.stop()
        port.release()


def _pod(world: World, lease: Fleet, kind: str, port: int) -> Contender:
    listen = ["--listen", f"127.0.0.1:{port}", "--namespace", lease.namespace]
    if kind == OURS:
        account = world.plane.service_account_dir(lease.namespace, "elector", ELECTOR_RULES)
        flags = ["--server", world.plane.server, "--service-account-dir", str(account.path)]
        interpreter = world.sidecar.interpreter
        return ElectorPod(
            "pod",
            lease.lease,
            [*flags, *listen],
            interpreter=interpreter,
            environ=AS_IN_IMAGES,
        )
    flags = ["--kubeconfig", str(kubeconfig(world.plane, lease.namespace)), "--lease", lease.lease]
    return CandidatePod(world.candidate, "pod", [*flags, *listen, *CLIENT_GO_TIMING])


def _await(port: int, *, is_200: bool) -> float:
    """When an HTTP answer (a 200) was there."""
    deadline = boottime() + TIMEOUT
    while boottime() < deadline:
        answer = _ask(port)
        if answer.startswith(b"HTTP/1.") and (not is_200 or answer[9:12] == b"200"):
            return boottime()
        sleep(ASK_INTERVAL)
    raise TookTooLong(f"no answer at port {port} within {TIMEOUT:g} s")


def _ask(port: int) -> bytes:
    with socket.socket() as connection:
        connection.settimeout(ANSWER_TIMEOUT)
        try:
            connection.connect(("127.0.0.1", port))
            connection.send(REQUEST)
            return connection.recv(512)
        except OSError:
            return b""
