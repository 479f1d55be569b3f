"""A client-go candidate beside electors while the lead is moved: by switchovers, holds and their
ends. client-go does not know them, and neither side works beside the other.

Nothing fails here, so each side's own word counts: client-go's callbacks, the electors' 200s.
"""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.elector.clients.test_client_go import PEER_RETRY, REFERENCE, SOON
from tests.integration.elector.moves.test_ctl import OPERATOR, show_pod
from tools.harness.controlplane.clients.answer import boottime
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.candidate import ClientGoCandidate
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, Fleet, kubeconfig
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import Observer, wait_for
from tools.harness.processes.command import run
from tools.nemesis.elector.history import History
from tools.nemesis.elector.verdict import Rules, judge

# The oldest in wide use, and the newest.
VERSIONS = ("0.26", REFERENCE)
TAKEN = FAST_DURATION + PEER_RETRY + SOON


class Mixed:
    """Two electors that can drain, and one candidate of client-go, on one Lease."""

    def __init__(
        self, plane: ControlPlane, fleet: Fleet, main: MainServer, peer: ClientGoCandidate
    ) -> None:
        self._plane = plane
        self.fleet = fleet
        self.peer = peer
        fleet.create_empty_lease()
        drain = ("--drain-url", f"{main.url}/drain")
        self.pods = [fleet.add(*drain) for _ in range(2)]
        for pod in self.pods:
            show_pod(plane, fleet.namespace, pod.name)
        self._kubeconfig: Path = plane.kubeconfig_for(fleet.namespace, "operator", OPERATOR)

    def ctl(self, *words: str) -> str:
        """What the command says, whether it could do what was asked or not."""
        more = () if words[0] == "history" else ("--timeout", "8s")
        done = run("ctl", *words, "--kubeconfig", str(self._kubeconfig), *more)
        assert done.returncode in (0, 1), done.stderr
        return done.stdout + done.stderr

    def leader(self) -> ElectorPod | None:
        """An elector, once somebody leads; None for the candidate of client-go."""
        found: list[ElectorPod | ClientGoCandidate] = []
        every: tuple[ElectorPod | ClientGoCandidate, ...] = (*self.pods, self.peer)

        def is_found() -> bool:
            found[:] = [it for it in every if it.is_leader()]
            return len(found) == 1

        wait_for(is_found, timeout=TAKEN, what="one leader")
        return found[0] if isinstance(found[0], ElectorPod) else None

    def assert_exclusive(self, observer: Observer) -> None:
        observer.assert_exclusive()
        for term in self.peer.terms():
            end = term.ended_at or boottime()
            beside = [
                it for it in observer.answers() if term.started_at < it.sent and it.received < end
            ]
            assert not beside, f"{term} beside {beside[0]}"
        events = self._plane.audit(stage=None, resource="leases", namespace=self.fleet.namespace)
        history = History([it for it in events if it.name == self.fleet.lease])
        rules, offset = Rules(FAST_DURATION), time.time() - boottime()
        assert not judge(history, observer.answers(), rules, offset=offset).findings


@pytest.fixture(params=VERSIONS)
def mixed(
    request: pytest.FixtureRequest, control_plane: ControlPlane, fleet: Fleet
) -> Iterator[Mixed]:
    with ExitStack() as stack:
        main = stack.enter_context(MainServer())
        peer = ClientGoCandidate(
            "peer-0",
            version=request.param,
            kubeconfig=kubeconfig(control_plane, fleet.namespace),
            namespace=fleet.namespace,
            lease=fleet.lease,
            releases=True,
            loops=True,
        )
        yield Mixed(control_plane, fleet, main, stack.enter_context(peer))


@pytest.mark.slow
def test_p1_switchovers_and_holds_beside_client_go_make_no_two_leaders(mixed: Mixed) -> None:
    assert mixed.leader() is not None
    mixed.peer.start()
    lease = mixed.fleet.lease
    has_led = False
    with Observer(mixed.pods) as observer:
        for turn in range(6):
            leader = mixed.leader()
            has_led = has_led or leader is None
            if leader is None:
                output = mixed.ctl("switchover" if turn % 2 else "hold", lease)
                assert "is no elector" in output
                mixed.peer.terminate()
                mixed.peer.wait()
                mixed.peer.start()
            elif turn % 2:
                other = next(it for it in mixed.pods if it is not leader)
                mixed.ctl("switchover", lease, "--to", other.name)
            else:
                mixed.ctl("hold", lease, "--for", "5s")
                # None of ours leads now: any leader is client-go's.
                assert not any(it.is_leader() for it in mixed.pods)
        mixed.ctl("resume", lease)
        mixed.leader()
    mixed.assert_exclusive(observer)
    assert has_led or mixed.peer.terms(), "client-go has not led"


@pytest.mark.slow
def test_client_go_leads_in_a_hold_which_says_so_and_keeps_the_electors_out(mixed: Mixed) -> None:
    """Its terms are in the history that electors keep: a later hold warns of it."""
    assert mixed.leader() is not None
    lease = mixed.fleet.lease
    with Observer(mixed.pods) as observer:
        assert "no pod leads until" in mixed.ctl("hold", lease, "--for", "10m")
        mixed.peer.start()
        wait_for(mixed.peer.is_leader, timeout=TAKEN, what="client-go leads")
        assert "peer-0 leads on: it is no elector" in mixed.ctl("hold", lease, "--for", "10m")
        mixed.peer.terminate()
        assert mixed.peer.wait() == 0
        time.sleep(FAST_DURATION + 1.0)
        assert not any(it.is_leader() for it in mixed.pods), "the hold goes on"
        assert "leads" in mixed.ctl("resume", lease)
        assert mixed.leader() is not None
        terms = json.loads(mixed.ctl("history", lease, "-o", "json"))["terms"]
        assert [it.get("seen") for it in terms if it["holder"] == "peer-0"] == [True]
        output = mixed.ctl("hold", lease, "--for", "10m")
    assert "no pod leads until" in output
    assert "peer-0 has led and is no elector" in output
    mixed.assert_exclusive(observer)
