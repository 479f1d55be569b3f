"""keepalived alone takes the address on every node: whatever is wrong with its check must not lead
there."""

import time
from collections.abc import Iterator

import pytest

from tools.harness.pods.observers.observer import wait_for
from tools.nemesis.vip.keepalived import Keepalived
from tools.nemesis.vip.keepalived_nodes import ADDRESS, HERE
from tools.nemesis.vip.lines import Lines
from tools.nemesis.vip.network import INTERFACE, Network

NODE = "node"
# Nobody listens there.
NO_ELECTOR = "http://127.0.0.1:4040"
# Seconds: an owner waits for a check and three advertisements.
CHECKS = 4.0
# Seconds in which it becomes one, on a busy machine.
TIMEOUT = 30.0


@pytest.fixture
def network(namespaces: None) -> Iterator[Network]:
    with Network() as one:
        one.add(NODE)
        yield one


@pytest.fixture
def keepalived(network: Network) -> Iterator[Keepalived]:
    values = {"VIRTUAL_IP": f"{ADDRESS}/24", "INTERFACE": INTERFACE, "ELECTOR": NO_ELECTOR}
    with Keepalived(network.inside(NODE), values) as process:
        yield process


def test_the_shipped_configuration_is_accepted(keepalived: Keepalived) -> None:
    done = keepalived.test()
    assert (done.returncode, done.stderr) == (0, "")


def test_a_misspelt_line_is_refused_at_the_start(keepalived: Keepalived) -> None:
    configuration = keepalived.folder / "keepalived.conf"
    text = configuration.read_text(encoding="utf-8")
    assert "track_script {" in text
    configuration.write_text(text.replace("track_script {", "track_scripts {"), encoding="utf-8")
    assert keepalived.test().returncode != 0


def test_missing_parameters_are_refused_at_the_start(keepalived: Keepalived) -> None:
    (keepalived.folder / "parameters.conf").unlink()
    assert keepalived.test().returncode != 0


def test_without_an_elector_nobody_owns_the_address(
    network: Network, keepalived: Keepalived
) -> None:
    assert _owned(network, keepalived) == [False]


def test_without_its_check_nobody_owns_the_address(
    network: Network, keepalived: Keepalived
) -> None:
    keepalived.checker.unlink()
    assert _owned(network, keepalived) == [False]


def test_with_a_check_that_may_not_run_nobody_owns_the_address(
    network: Network, keepalived: Keepalived
) -> None:
    keepalived.checker.chmod(0o644)
    assert _owned(network, keepalived) == [False]


def test_with_a_folder_in_the_place_of_its_check_nobody_owns_the_address(
    network: Network, keepalived: Keepalived
) -> None:
    """What a container's engine makes of a file to mount that does not exist."""
    keepalived.checker.unlink()
    keepalived.checker.mkdir()
    assert _owned(network, keepalived) == [False]


def test_a_check_that_always_agrees_gives_the_address(
    network: Network, keepalived: Keepalived
) -> None:
    """The tests beside this one would see an owner."""
    keepalived.checker.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    assert _owned(network, keepalived, until=[False, True]) == [False, True]


def _owned(
    network: Network, keepalived: Keepalived, *, until: list[bool] | None = None
) -> list[bool]:
    """What became of the address until several checks were made, or `until` that came true."""
    watch = [*network.inside(NODE), "python3", "-I", "-S", HERE / "watch_address.py", ADDRESS]
    with Lines(watch) as told:
        keepalived.start()
        wait_for(lambda: "leader" in keepalived.log_text(), timeout=TIMEOUT, what="a first check")
        if until is None:
            time.sleep(CHECKS)
        else:
            wait_for(
                lambda: [line["owned"] for line in told.so_far()] == until,
                timeout=TIMEOUT,
                what=f"owned: {until}",
            )
        return [line["owned"] for line in told.so_far()]
