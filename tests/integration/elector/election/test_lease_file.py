"""`--lease-file`: the Lease's name comes later, changes, goes; leading follows it in order (P6)."""

import asyncio
import gc
import os
import signal
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.kubeapi import Plain
from elector_sidecar import app
from elector_sidecar.config.config import load
from elector_sidecar.elector import Elector
from elector_sidecar.leases import lease_file
from tools.harness.controlplane.reservation import Reservation
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST_DURATION, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import wait_for

PATIENCE = 30.0


@pytest.fixture
def port() -> Iterator[int]:
    reservation = Reservation()
    yield reservation.port
    reservation.release()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lease"


def started(fleet: Fleet, file: Path, port: int, *flags: str) -> ElectorPod:
    """Whether or not the file is there."""
    pod = fleet.add("--lease-file", str(file), "--listen", f"127.0.0.1:{port}", *flags, start=False)
    pod.start(wait=False).port = port
    wait_for(lambda: pod.ask("/livez") is not None, timeout=PATIENCE, what="an answer")
    return pod


def holder(fleet: Fleet, lease: str) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases/{lease}"
    _, body = fleet.plane.admin.get(path)
    name: str = (body.get("spec") or {}).get("holderIdentity", "")
    return name


def leads(fleet: Fleet, pod: ElectorPod, lease: str) -> bool:
    is_holder = holder(fleet, lease).startswith(pod.name)
    return is_holder and pod.is_leader() and holder(fleet, lease) == pod.leader()["holder"]


def reason(pod: ElectorPod) -> str:
    answer = pod.ask("/readyz")
    return "" if answer is None or answer.status == 200 else answer.body.decode()


def test_the_name_may_come_after_the_start(fleet: Fleet, file: Path, port: int) -> None:
    pod = started(fleet, file, port)
    assert pod.readyz() == 503
    assert "No such file" in reason(pod)
    livez = pod.ask("/livez")
    assert livez is not None
    assert livez.status == 200
    file.write_text("")
    wait_for(lambda: "is empty" in reason(pod), timeout=PATIENCE, what="the reason")
    file.write_text("No_Name\n")
    wait_for(lambda: "'No_Name'" in reason(pod), timeout=PATIENCE, what="the reason")
    file.write_text("pool-a\n")
    wait_for(lambda: leads(fleet, pod, "pool-a"), timeout=PATIENCE, what="the lead")


def test_another_name_gives_the_first_lease_up_in_order(
    fleet: Fleet, file: Path, port: int
) -> None:
    """The main confirms by its drain URL: the first Lease is released, not left to expire."""
    file.write_text("pool-a")
    with MainServer() as main:
        pod = started(fleet, file, port, "--drain-url", f"{main.url}/drain")
        wait_for(lambda: leads(fleet, pod, "pool-a"), timeout=PATIENCE, what="the lead")
        file.write_text("pool-b")
        wait_for(lambda: leads(fleet, pod, "pool-b"), timeout=PATIENCE, what="the other lead")
        assert holder(fleet, "pool-a") == ""
        assert main.asked("/drain") == 1


def test_without_a_word_of_the_main_the_first_lease_is_left_to_expire(
    fleet: Fleet, file: Path, port: int
) -> None:
    file.write_text("pool-a")
    pod = started(fleet, file, port)
    wait_for(lambda: leads(fleet, pod, "pool-a"), timeout=PATIENCE, what="the lead")
    first = holder(fleet, "pool-a")
    file.unlink()
    wait_for(lambda: "No such file" in reason(pod), timeout=PATIENCE, what="no lead")
    assert holder(fleet, "pool-a") == first


def test_a_name_that_is_only_being_written_changes_nothing(
    fleet: Fleet, file: Path, port: int
) -> None:
    file.write_text("pool-a")
    pod = started(fleet, file, port)
    wait_for(lambda: leads(fleet, pod, "pool-a"), timeout=PATIENCE, what="the lead")
    identity = pod.leader()["holder"]
    for _ in range(3):
        file.write_text("")
        file.write_text("pool-a")
        wait_for(lambda: holder(fleet, "pool-a") == identity, timeout=FAST_DURATION, what="it")
    assert pod.leader()["holder"] == identity


def test_sigterm_ends_it_also_while_it_waits_for_a_name(
    fleet: Fleet, file: Path, port: int
) -> None:
    pod = started(fleet, file, port)
    pod.terminate()
    assert pod.wait() == 0


@pytest.mark.long
@pytest.mark.parametrize("is_named", [False, True])
def test_a_disk_that_hangs_stops_neither_renewal_nor_the_end(
    fleet: Fleet, file: Path, port: int, is_named: bool
) -> None:
    """A named pipe that nobody writes: its open(2) does not return."""
    if is_named:
        file.write_text("pool-a")
    else:
        os.mkfifo(file)
    pod = started(fleet, file, port)
    if is_named:
        wait_for(lambda: leads(fleet, pod, "pool-a"), timeout=PATIENCE, what="the lead")
        os.mkfifo(file.with_suffix(".pipe"))
        file.with_suffix(".pipe").rename(file)
        until = time.monotonic() + 2 * FAST_DURATION
        while time.monotonic() < until:
            assert pod.is_leader()
            time.sleep(0.1)
    pod.terminate()
    assert pod.wait() == 0


def test_what_led_under_former_names_is_freed(
    file: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, whose objects can be asked for; 10000 changes fit into 96Mi then."""
    electors: list[weakref.ref[Elector]] = []
    came = asyncio.Event()

    def recorded(*arguments: Any, **more: Any) -> Elector:
        elector = Elector(*arguments, **more)
        electors.append(weakref.ref(elector))
        came.set()
        return elector

    def name(number: int) -> None:
        came.clear()
        file.write_text(f"pool-{number}")

    monkeypatch.setattr(app, "Elector", recorded)
    monkeypatch.setattr(app, "FREEZE_GC_AFTER", 0.0)
    monkeypatch.setattr(lease_file, "INTERVAL", 0.02)
    flags = ["--lease-file", str(file), "--listen", f"127.0.0.1:{port}", "--namespace", "shop"]
    config = load([*flags, "--server", "http://127.0.0.1:9"], {}, hostname="pod-1")

    async def scenario() -> None:
        serving = asyncio.create_task(app._serve(config, Plain("http://127.0.0.1:9")))
        for number in range(1, 5):
            name(number)
            async with asyncio.timeout(PATIENCE):
                await came.wait()
            await asyncio.sleep(0.1)  # past the time at which it would be frozen
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    try:
        asyncio.run(scenario())
        gc.collect()
        assert [it() for it in electors] == [None] * 4
    finally:
        gc.unfreeze()


def test_a_name_that_was_read_once_is_a_reason_too(fleet: Fleet, file: Path, port: int) -> None:
    file.write_text("pool-a")
    pod = started(fleet, file, port)
    said = set()
    while not pod.is_leader():
        said.add(reason(pod))
    assert "\n" not in said
