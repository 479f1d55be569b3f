"""Pytest fixtures: one control plane per run, a fresh namespace and a fault proxy per test.

Guarantees: a test never sees another one's objects or faults; where the programs are missing,
tests skip on a laptop and fail in CI (`CI=true`), each with the command that builds them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tools.harness.controlplane import build
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy


def require_program(name: str) -> str:
    """The path of the program that is built already; skips, or in CI fails, where it is not."""
    found = build.find(name)
    if found is None:
        lack(f"{name} is missing: run python3 tools/harness/controlplane/build.py")
    return str(found)


def lack(what: str) -> NoReturn:
    """Skips, or in CI fails, for want of what the message says."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A running control plane, shared: who stops, freezes or rotates it undoes that."""
    for name in ("kube-apiserver", "etcd"):
        require_program(name)
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The name of a fresh namespace."""
    return control_plane.create_namespace()


@pytest.fixture
def fault_proxy(control_plane: ControlPlane) -> Iterator[FaultProxy]:
    """A proxy to the API server that forwards everything until it is told otherwise."""
    with FaultProxy(control_plane.port) as proxy:
        yield proxy
