"""Fixtures and hooks for all tests; each is described where it is defined."""

from tests.controlplane.fixtures import control_plane, fault_proxy, namespace
from tests.reruns import pytest_terminal_summary
from tests.scheduling import pytest_collection_modifyitems, pytest_xdist_make_scheduler

__all__ = [
    "control_plane",
    "fault_proxy",
    "namespace",
    "pytest_collection_modifyitems",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]
