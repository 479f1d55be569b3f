"""Fixtures for relays as real processes before the real API server.

Who only asks shares one place of each kind for the whole run; who breaks links or kills relays
gets a place of its own. `direct` is the reference that a relay must equal.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.relay.place import ALL, PATIENT, Kind, Place, played
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.relay_objects import Contents, Widgets


@pytest.fixture(scope="session")
def places(control_plane: ControlPlane) -> Iterator[Callable[[Kind], Place]]:
    """One place of each kind for all tests, started when the first one asks for it."""
    started: dict[Kind, Place] = {}
    with ExitStack() as stack:

        def of(kind: Kind) -> Place:
            if kind not in started:
                started[kind] = stack.enter_context(Place(kind, control_plane, flags=[PATIENT]))
            started[kind].wait_up()
            return started[kind]

        yield of
        for place in started.values():
            check_logs(place)


@pytest.fixture(params=ALL, ids=lambda kind: kind.value)
def shared(request: pytest.FixtureRequest, places: Callable[[Kind], Place]) -> Place:
    """A place for all tests; nobody breaks its link or its relays."""
    return places(request.param)


@pytest.fixture(params=(Kind.DIRECT, Kind.RELAY), ids=lambda kind: kind.value)
def near(request: pytest.FixtureRequest, places: Callable[[Kind], Place]) -> Place:
    """`shared` without the relay behind a relay, for what each one waits for in turn."""
    return places(request.param)


@pytest.fixture(params=played(*ALL))
def place(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Place]:
    """A place of the test's own."""
    with Place(request.param, control_plane) as own:
        yield own
        check_logs(own)


@pytest.fixture(params=played(Kind.RELAY, Kind.BEHIND_RELAY))
def relayed(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Place]:
    """A relay, or two in a row, of the test's own."""
    with Place(request.param, control_plane) as own:
        yield own
        check_logs(own)


@pytest.fixture
def one_relay(control_plane: ControlPlane) -> Iterator[Place]:
    """A single relay of the test's own."""
    with Place(Kind.RELAY, control_plane) as own:
        yield own
        check_logs(own)


@pytest.fixture
def contents(control_plane: ControlPlane, namespace: str) -> Contents:
    """Objects in a fresh namespace, made in the cloud."""
    return Contents(control_plane, namespace)


@pytest.fixture(scope="session")
def published_widgets(control_plane: ControlPlane) -> Widgets:
    """A CRD for all tests that leave it as it is: making one takes two seconds."""
    made = Widgets(control_plane)
    made.wait_published()
    return made


@pytest.fixture
def widgets(published_widgets: Widgets) -> Widgets:
    """That CRD, served: an API server that was started again since answers 429 at first."""
    published_widgets.wait_served()
    return published_widgets


def check_logs(place: Place) -> None:
    """No relay met anything that nobody foresaw."""
    for relay in place.relays:
        assert "Traceback" not in relay.log_text(all_lives=True), relay.log_text(all_lives=True)
