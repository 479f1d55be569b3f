"""`make demo CONTAINERS=1` as somebody runs it who only looks on.

What it makes in the engine bears the id of its process, so that what stays of it is found, whatever
else uses the engine; volumes are remembered while containers have them.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from tools.harness.containers.engine.lab import LABEL
from tools.harness.pods.observers.observer import wait_for

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600, func_only=True)]
ROOT = Path(__file__).parents[2]
# Seconds on a busy machine, images included; a quiet one needs 60, and 15 to start.
RUN_TIMEOUT = 500.0
START_TIMEOUT = 200.0
# Seconds for the end: containers are removed one after the other.
CLEAN_TIMEOUT = 120.0
# Three pods, the API server and the edge, each of a pause and two others.
CONTAINERS = 15


class Demo:
    """Runs when it is made; `folder`: for its output and its temporary files."""

    def __init__(self, client: docker.DockerClient, folder: Path) -> None:
        self._client = client
        self._output = folder / "output"
        self._temporary = folder / "temporary"
        self._temporary.mkdir()
        self._volumes: set[str] = set()
        flags = ["--containers", "--pause", "0", "--lease-duration", "4s"]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tools.demo", *flags],
                cwd=ROOT,
                env={**os.environ, "TMPDIR": str(self._temporary)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_running(self) -> None:
        def runs() -> bool:
            assert self.process.poll() is None, self.output()
            return len(self._containers()) == CONTAINERS

        wait_for(runs, timeout=START_TIMEOUT, what="all of the demo's containers", interval=0.5)
        mounts = [mount for it in self._containers() for mount in it.attrs["Mounts"]]
        self._volumes = {mount["Name"] for mount in mounts if mount["Type"] == "volume"}
        # The relay's.
        assert len(self._volumes) == 1

    def assert_nothing_left(self) -> None:
        assert self._containers() == []
        networks = self._client.networks.list()
        assert [it.name for it in networks if self._is_own(it.attrs["Labels"] or {})] == []
        assert self._volumes.isdisjoint(it.name for it in self._client.volumes.list())
        assert list(self._temporary.iterdir()) == []

    def _containers(self) -> list[Container]:
        listed = self._client.containers.list(
            all=True, filters={"label": LABEL}, ignore_removed=True
        )
        return [it for it in listed if self._is_own(it.labels)]

    def _is_own(self, labels: dict[str, str]) -> bool:
        return labels.get(LABEL, "").startswith(f"{self.process.pid}.")


@pytest.fixture
def demo(
    docker_engine: docker.DockerClient, images: dict[str, str], tmp_path: Path
) -> Iterator[Demo]:
    """`images` are built: of the same files, so that the demo's are there at once."""
    demo = Demo(docker_engine, tmp_path)
    yield demo
    if demo.process.poll() is None:
        demo.process.terminate()
        demo.process.wait(CLEAN_TIMEOUT)


def test_the_demo_in_containers_shows_every_takeover_and_outage_and_leaves_nothing(
    demo: Demo,
) -> None:
    demo.wait_running()
    assert demo.process.wait(RUN_TIMEOUT) == 0, demo.output()
    headline, _, summary = demo.output().partition("What happened")
    assert "containers, the local API server: 3 pods" in headline
    for step in (
        "three pods start",
        "kill the leader's main",
        "kill the whole leader",
        "cut the leader off",
        "roll all three",
        "cut an edge's link",
        "kill its relay, still cut",
        "changes, then heal its link",
    ):
        assert step in summary
    assert "FAILED" not in summary
    assert ", 0 of them while a newer term led" in summary
    assert ", 0 out of order" in summary
    assert "verdict: exactly one leader at a time" in summary
    demo.assert_nothing_left()


def test_ctrl_c_ends_the_demo_in_containers_and_leaves_nothing(demo: Demo) -> None:
    demo.wait_running()
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(CLEAN_TIMEOUT) == 130, demo.output()
    demo.assert_nothing_left()
