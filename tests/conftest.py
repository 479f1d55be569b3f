"""Fixtures and hooks for all tests; each is described where it is defined."""

from hypothesis import HealthCheck, settings

from tests.examples import examples
from tests.garbage import pytest_collection
from tests.scheduling import pytest_collection_modifyitems, pytest_xdist_make_scheduler
from tests.summary import pytest_terminal_summary
from tools.harness.controlplane.fixtures import control_plane, fault_proxy, namespace
from tools.harness.processes import forks

# A busy machine draws slowly, which is no fault of a test. In CI Hypothesis' own profile, which
# draws the same each time, stays below this one.
settings.register_profile(
    "busy",
    parent=settings.get_profile(settings.get_current_profile_name()),
    max_examples=examples(100, nightly=1),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("busy")
forks.allow()

__all__ = [
    "control_plane",
    "fault_proxy",
    "namespace",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]
