"""A process measures itself by the names that Prometheus' clients use."""

import os
import time
from pathlib import Path

from edge_sidecars.runtime.metrics import render
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.process_metrics import measure


def _values() -> dict[str, float]:
    return {it.name: it.samples[0][1] for it in measure()}


def test_the_version_is_a_label_of_build_info() -> None:
    assert f'edge_sidecars_build_info{{version="{VERSION}"}} 1' in render(measure())


def test_open_files_are_counted() -> None:
    before = _values()["process_open_fds"]
    with Path("/dev/null").open("rb"):
        assert _values()["process_open_fds"] == before + 1
    assert before < _values()["process_max_fds"]


def test_memory_is_what_the_kernel_says() -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    told = _values()["process_resident_memory_bytes"]
    # The kernel keeps both counts, and not at the same moment.
    assert 0.5 < told / (pages * os.sysconf("SC_PAGE_SIZE")) < 2


def test_processor_time_grows_with_work_and_the_start_stays() -> None:
    before = _values()
    ends = time.process_time() + 0.05
    while time.process_time() < ends:
        pass
    after = _values()
    assert after["process_cpu_seconds_total"] > before["process_cpu_seconds_total"]
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"]
    # Since the machine started, and not in the future by more than the clock may have been set.
    assert before["process_start_time_seconds"] < time.time() + 60
