"""P3, P4 and P8 against answers and events that a real API server cannot be made to give.

A scripted one gives them, once each; many of them at once, each to an elector of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.integration.elector.election.lease_server import NAMESPACE, LeaseServer, Scripted
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, LEASE, STEADY
from tools.harness.pods.observers.observer import wait_for

RENEW_INTERVAL = 1.0
# Seconds for a busy machine; less than a STEADY term lasts without renewals.
SOON = 10.0


@pytest.fixture
def server() -> Iterator[LeaseServer]:
    with LeaseServer() as it:
        yield it
        assert not it.unexpected


@pytest.fixture
def pod(server: LeaseServer) -> Iterator[ElectorPod]:
    """It leads."""
    with scripted_pod(server, "pod-0").start() as it:
        wait_for(it.is_leader, timeout=SOON, what="the lead")
        yield it


def scripted_pod(server: LeaseServer, name: str, *, timing: tuple[str, ...] = FAST) -> ElectorPod:
    where = ["--server", server.url, "--namespace", NAMESPACE]
    return ElectorPod(name, LEASE, [*where, *timing])


@dataclass
class Pair:
    """One scripted server and its only candidate."""

    server: LeaseServer
    pod: ElectorPod


@contextmanager
def pairs(
    names: Iterable[str], *, script: Mapping[str, Scripted] | None = None
) -> Iterator[dict[str, Pair]]:
    """All of them at once, so that many answers cost the time of one. `script`: for the first read
    of each."""
    with ExitStack() as stack:
        made = {}
        for name in names:
            server = stack.enter_context(LeaseServer())
            if script is not None:
                server.answer("get", script[name])
            pod = stack.enter_context(scripted_pod(server, "pod-0", timing=STEADY))
            made[name] = Pair(server, pod.start(wait=False))
        for pair in made.values():
            pair.pod.wait_listening()
        for name, pair in made.items():
            wait_for(pair.pod.is_leader, timeout=SOON, what=f"the lead ({name})")
        yield made
        for name, pair in made.items():
            assert not pair.server.unexpected, name


def wait_for_renewals(server: LeaseServer, *, count: int = 2, since: float | None = None) -> None:
    """So many writes were answered well since then, or from now on."""
    since = boottime() if since is None else since
    wait_for(
        lambda: (
            sum(
                call.verb == "update" and call.status == 200 and call.at >= since
                for call in list(server.calls)
            )
            >= count
        ),
        timeout=count * RENEW_INTERVAL + SOON,
        what="renewals",
    )


# ── writes ──

WRITE_ANSWERS = {
    "409": [Scripted(409)] * 2,
    "404": [Scripted(404)],
    "429": [Scripted(429, headers={"Retry-After": "30"})] * 2,
    "500": [Scripted(500)] * 2,
    "500-applied": [Scripted(500, is_applied=True)],
    "503": [Scripted(503, headers={"Retry-After": "30"})],
    "504-applied": [Scripted(504, is_applied=True)],
    "garbage-applied": [Scripted(200, b"<html>", is_applied=True)],
    "garbage": [Scripted(200, b'{"kind": "Lease", "metadata": []}')],
    "truncated-applied": [Scripted(200, b'{"kind": "Le', is_applied=True, is_truncated=True)],
    "truncated": [Scripted(200, b'{"kind": "Le', is_truncated=True)],
    "empty": [Scripted(200, b"")],
}


@pytest.mark.slow
def test_p3_no_odd_answer_to_a_renewal_ends_a_term() -> None:
    with pairs(WRITE_ANSWERS) as made:
        before = {name: pair.pod.leader() for name, pair in made.items()}
        for name, pair in made.items():
            pair.server.answer("update", *WRITE_ANSWERS[name])
        for name, pair in made.items():
            wait_for(
                lambda pair=pair: pair.server.is_used_up("update"),  # type: ignore[misc]
                timeout=4 * RENEW_INTERVAL + SOON,
                what=f"the scripted answers ({name})",
            )
        since = boottime()
        for name, pair in made.items():
            wait_for_renewals(pair.server, since=since)
            now = pair.pod.leader()
            # A lapse, however short, would have begun another term.
            assert now["fencingToken"] == before[name]["fencingToken"], name
            assert now["leaseTransitions"] == before[name]["leaseTransitions"], name
            assert pair.server.lease()["spec"]["holderIdentity"] == pair.pod.identity, name


# ── reads and watches ──


WATCH_ANSWERS = {
    "410": Scripted(410),
    "500": Scripted(500),
    "garbage": Scripted(200, b"not json\n"),
    "truncated": Scripted(200, b'{"type": "MODIF', is_truncated=True),
    "error-410": Scripted(200, b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}\n'),
}


@pytest.mark.slow
def test_a_watch_that_fails_is_opened_anew_and_ends_no_term() -> None:
    with pairs(WATCH_ANSWERS) as made:
        tokens = {name: pair.pod.leader()["fencingToken"] for name, pair in made.items()}
        before: dict[str, int] = {}
        for name, pair in made.items():
            wait_for(
                lambda pair=pair: pair.server.count("watch") >= 1,  # type: ignore[misc]
                timeout=SOON,
                what=f"the first watch ({name})",
            )
            before[name] = pair.server.count("watch")
            pair.server.answer("watch", WATCH_ANSWERS[name])
            pair.server.end_watches()
        for name, pair in made.items():
            wait_for(
                lambda pair=pair, count=before[name]: (  # type: ignore[misc]
                    pair.server.count("watch") >= count + 2
                ),
                timeout=SOON,
                what=f"a new watch ({name})",
            )
        since = boottime()
        for name, pair in made.items():
            wait_for_renewals(pair.server, since=since)
            assert pair.pod.leader()["fencingToken"] == tokens[name], name
