"""What runs before what, and what stays in one process where several run tests (pytest-xdist).

A file stays together, as its fixtures are its own; so do all tests of containers, nodes among them:
one process builds the images and has the control planes in them. Unit tests come first: they tell
soonest, and nothing of the others runs beside them. Then what takes longest, so that the processes
end together. What is marked manual runs only where -m names it.
"""

from collections import defaultdict
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

UNIT = "tests/unit/"
# Seconds of an integration test at the mean, measured with two processes: that is marked slow, and
# any other.
SLOW, QUICK = 12.0, 0.5
# They share an engine, and a processor that nodes can keep busy by themselves.
TOGETHER = ("tests/container/", "tests/node/")


def scope(nodeid: str) -> str:
    """What is not divided."""
    return TOGETHER[0] if nodeid.startswith(TOGETHER) else nodeid.partition("::")[0]


class Scheduling(LoadFileScheduling):  # type: ignore[misc]
    """`--dist loadfile`, but for what else is not divided."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "manual" not in (config.getoption("markexpr") or ""):
        left_out = [it for it in items if it.get_closest_marker("manual") is not None]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [it for it in items if it not in left_out]
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        is_slow = item.get_closest_marker("slow") is not None
        seconds[scope(item.nodeid)] += SLOW if is_slow else QUICK
    items.sort(key=lambda it: (not it.nodeid.startswith(UNIT), -seconds[scope(it.nodeid)]))
