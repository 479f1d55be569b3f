"""Rooms are named, not imported: each name leads to a door; what is not wanted costs no memory."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

from relay_sidecar.features import Feature
from relay_sidecar.wiring.relay import FEATURES


@pytest.mark.parametrize("feature", FEATURES, ids=lambda it: it.door)
def test_a_room_has_a_door(feature: Feature) -> None:
    assert inspect.iscoroutinefunction(import_module(feature.door).open_room)


def test_a_relay_imports_no_room_before_its_flags_ask_for_one() -> None:
    program = "import sys, relay_sidecar.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert not {it.door for it in FEATURES} & set(done.stdout.split())
