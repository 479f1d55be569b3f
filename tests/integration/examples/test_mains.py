"""The mains of `examples/mains`: each language works only while its lead is proven."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tools.harness.controlplane.build import BuildError
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.peers.mains import MAINS, RUST, environment
from tools.harness.peers.other_informers import Client, command_of
from tools.harness.peers.stand_in_elector import StandInElector
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader

pytestmark = [pytest.mark.slow, pytest.mark.long]

# Seconds; a JVM on a busy machine.
PATIENCE: Final = 60.0
# Seconds; longer than an answer that is already on its way, some units of work.
SETTLED: Final = 0.5


class Main:
    def __init__(self, language: Client, elector: str, ledger: Path) -> None:
        self.ledger = ledger
        self.process = subprocess.Popen(command_of(language), env=environment(elector, ledger))

    @property
    def units(self) -> list[int]:
        """The token of each unit of work, in order."""
        return [int(it) for it in self.ledger.read_text().split()] if self.ledger.exists() else []

    def wait_works(self, token: int) -> None:
        wait_for(lambda: self.units[-1:] == [token], timeout=PATIENCE, what=f"works in {token}")

    def rests(self, seconds: float) -> bool:
        """Whether it does nothing for so long."""
        before = len(self.units)
        time.sleep(seconds)
        return len(self.units) == before

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        wait_for(
            lambda: b"\nState:\tT" in Path(f"/proc/{self.process.pid}/status").read_bytes(),
            timeout=PATIENCE,
            what="stopped",
        )

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(params=MAINS, ids=lambda it: it.name.removeprefix("main-"))
def language(request: pytest.FixtureRequest) -> Client:
    language: Client = request.param
    if language is RUST:
        # Nothing that CI could install would help.
        try:
            command_of(language)
        except (BuildError, FileNotFoundError) as error:
            pytest.skip(f"this machine's cargo does not build it: {error}")
    if language.missing:
        packages = " ".join(language.missing)
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"{packages} is missing: make test-deps installs it")
        pytest.skip(f"{packages} is missing: apt-get install {packages}")
    return language


@pytest.fixture
def elector() -> Iterator[StandInElector]:
    with StandInElector() as it:
        yield it
        assert it.unexpected == []


@pytest.fixture
def main(language: Client, elector: StandInElector, tmp_path: Path) -> Iterator[Main]:
    """It has worked in term 7, and is a standby again."""
    it = Main(language, elector.url, tmp_path / "ledger")
    try:
        elector.lead(7, seconds=PATIENCE)
        it.wait_works(7)
        elector.standby()
        time.sleep(SETTLED)
        yield it
    finally:
        it.end()


@pytest.mark.long
def test_a_main_rests_as_soon_as_its_elector_says_so(main: Main, elector: StandInElector) -> None:
    assert main.rests(SETTLED)
    elector.lead(8, seconds=PATIENCE)
    main.wait_works(8)


def test_a_main_rests_at_the_end_of_the_proof_though_nobody_says_so(
    main: Main, elector: StandInElector
) -> None:
    elector.lead(8, seconds=2.0)
    main.wait_works(8)
    time.sleep(2.0)
    assert main.rests(SETTLED)


@pytest.mark.long
def test_a_line_that_is_read_late_proves_nothing(main: Main, elector: StandInElector) -> None:
    main.freeze()
    elector.lead(8, seconds=1.0)
    time.sleep(1.5)
    main.thaw()
    assert main.rests(2.0)
    assert main.units[-1] == 7


@pytest.mark.long
def test_a_stream_that_ends_or_is_garbled_is_followed_anew(
    main: Main, elector: StandInElector
) -> None:
    for token, damage in enumerate((elector.end_streams, elector.garble), start=8):
        damage()
        time.sleep(SETTLED)
        elector.lead(token, seconds=PATIENCE)
        main.wait_works(token)


def test_sigterm_ends_a_main_with_its_work(main: Main, elector: StandInElector) -> None:
    elector.lead(8, seconds=PATIENCE)
    main.wait_works(8)
    main.process.terminate()
    main.process.wait(PATIENCE)
    assert main.rests(SETTLED)


@pytest.fixture
def fleet(control_plane: ControlPlane, namespace: str) -> Iterator[Fleet]:
    with Fleet(control_plane, namespace) as it:
        yield it


@pytest.mark.long
def test_no_main_works_in_an_older_term_when_whole_pods_freeze_and_are_cut(
    fleet: Fleet, language: Client, tmp_path: Path
) -> None:
    leader, [standby] = fleet.elect(2)
    ledger = tmp_path / "ledger"
    first, second = (
        Main(language, f"http://127.0.0.1:{pod.port}", ledger) for pod in (leader, standby)
    )
    try:
        first.wait_works(_token(leader))

        leader.freeze()
        first.freeze()
        wait_for_leader([standby], timeout=PATIENCE)
        second.wait_works(_token(standby))
        first.thaw()
        leader.thaw()
        time.sleep(SETTLED)

        fleet.link(standby).black_hole()
        wait_for_leader([leader], timeout=PATIENCE)
        first.wait_works(_token(leader))
        assert first.units == sorted(first.units)
        assert len(set(first.units)) == 3
    finally:
        first.end()
        second.end()


def _token(pod: ElectorPod) -> int:
    token: int = pod.leader()["fencingToken"]
    return token
