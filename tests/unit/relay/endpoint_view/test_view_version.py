"""The versions of the endpoint view: they grow, over restarts too, and name one state."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.endpoint_view.view_version import (
    LAST,
    PersistedVersion,
    ViewVersion,
    view_version,
)
from tests.examples import play


def test_endpoint_view_versions_are_upstreams_with_a_count_below() -> None:
    versions = ViewVersion(7)
    assert versions.version == 7 << 24
    assert (versions.changed(), versions.changed()) == ((7 << 24) + 1, (7 << 24) + 2)
    assert versions.upstream_changed(9) == 9 << 24
    versions.reached(9)
    assert versions.version == 9 << 24
    # Two changes at one version of upstream.
    assert versions.upstream_changed(9) == (9 << 24) + 1


def test_endpoint_view_at_its_last_version_it_stands_still_until_upstream_moves() -> None:
    versions = ViewVersion(7, LAST - 1)
    assert versions.room == 1
    assert versions.changed() == view_version(7, LAST)
    assert versions.room == 0
    assert versions.changed() == view_version(7, LAST) < view_version(8)
    versions.reached(8)
    assert versions.room == LAST


def test_endpoint_view_a_restart_keeps_the_pair_only_if_upstreams_state_was_shown() -> None:
    plain = PersistedVersion(7, 3, is_overlaid=False)
    overlaid = PersistedVersion(7, 3, is_overlaid=True)
    assert ViewVersion.begin(7, plain, jump=5).version == view_version(7, 3)
    assert ViewVersion.begin(8, plain, jump=5).version == view_version(8)
    assert ViewVersion.begin(7, overlaid, jump=5).version == view_version(7, 8)
    # What was shown at (8, 0) had overlays.
    assert ViewVersion.begin(8, overlaid, jump=5).version == view_version(8, 5)
    # Of another history, or nothing is known.
    assert ViewVersion.begin(6, plain, jump=5).version == view_version(6, 5)
    assert ViewVersion.begin(7, None, jump=5).version == view_version(7, 5)
    assert ViewVersion.begin(7, PersistedVersion(7, LAST, True), jump=5).version == view_version(
        7, LAST
    )


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"v":1,"e":-1,"isOverlaid":true}', b"{}"]
)
def test_endpoint_view_a_damaged_record_is_none(raw: bytes) -> None:
    assert PersistedVersion.decode(raw) is None


@given(v=st.integers(0, 2**63), e=st.integers(0, LAST), is_overlaid=st.booleans())
def test_endpoint_view_a_record_comes_back_as_it_was(v: int, e: int, is_overlaid: bool) -> None:
    record = PersistedVersion(v, e, is_overlaid)
    assert PersistedVersion.decode(record.encode()) == record


@dataclass
class _Life:
    """Versions of one run after the other, with the states that they were given to."""

    disk: PersistedVersion | None = None
    upstream: int = 5
    overlay: int = 0
    given: dict[int, tuple[int, int]] = field(default_factory=dict)
    newest: int = 0

    def begin(self, jump: int) -> None:
        self.versions = ViewVersion.begin(self.upstream, self.disk, jump=jump)
        self.overlay = 0
        self.show()

    def change(self, overlay: int) -> None:
        self.overlay = overlay
        self.versions.changed()
        self.show()

    def move(self) -> None:
        self.upstream += 1
        self.versions.reached(self.upstream)
        self.show()

    def show(self) -> None:
        record = PersistedVersion(self.versions.v, self.versions.e, self.overlay > 0)
        old = self.disk
        # As the shell has it: before it is shown, where it is not upstream's alone.
        if record.e or old is None or old.is_overlaid is not record.is_overlaid:
            self.disk = record
        version, state = self.versions.version, (self.upstream, self.overlay)
        assert version >= self.newest, "it went back"
        assert self.given.setdefault(version, state) == state, "one version, two states"
        self.newest = version


@play(400)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.integers(1, 3)),
            st.tuples(st.just("change"), st.integers(0, 2)),
            st.tuples(st.just("move"), st.just(0)),
        ),
        max_size=40,
    )
)
def test_endpoint_view_versions_grow_and_name_one_state_each_over_restarts(
    steps: list[tuple[str, int]],
) -> None:
    life = _Life()
    life.begin(1)
    for step, argument in steps:
        if step == "move":
            life.move()
        else:
            getattr(life, step)(argument)
