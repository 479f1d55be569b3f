"""No node that lives is judged dead or left out of endpoints, and each dead one is judged in time,
whatever befalls the site: scenes that overlap, of members, links, power and the controller.

`HYPOTHESIS_PROFILE=nightly pytest -n 2 tests/unit/pool/whole_site` plays 100,000 histories.
"""

from collections.abc import Callable

import pytest

from pool_sidecar.core import peers
from pool_sidecar.core.peers import Peers, Sign
from tests.examples import examples
from tests.unit.pool.whole_site.scenes import draw, play

# Parts of all histories, which run beside each other.
PARTS = 8
HISTORIES = examples(40, nightly=2500)
# Histories in which each mutant is caught.
ENOUGH = 100


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_no_living_node_is_dead_or_out_of_endpoints_and_each_dead_one_is_dead_in_time(
    part: int,
) -> None:
    for seed in range(part, HISTORIES, PARTS):
        told = "; ".join(map(str, draw(seed)[1]))
        assert play(seed) == [], f"seed {seed}: {told}"


@pytest.mark.long
def _no_signs(patch: pytest.MonkeyPatch) -> None:
    """Only TCP tells a host that lives from one that does not."""
    failed = Peers.failed

    def blind(self: Peers, name: str, sign: Sign, now: float) -> None:
        failed(self, name, Sign.NONE, now)

    patch.setattr(Peers, "failed", blind)


def _no_hearing(patch: pytest.MonkeyPatch) -> None:
    """A member forgets over its start whom it heard."""
    patch.setattr(Peers, "restore", lambda self, heard: None)


def _hasty(patch: pytest.MonkeyPatch) -> None:
    """One round without a sign is enough."""
    patch.setattr(peers, "SILENT_AFTER", 1)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "finding"),
    [
        (_no_signs, "endpoints"),
        (_no_hearing, "in time"),
        (_hasty, "endpoints"),
    ],
)
def test_members_without_one_of_their_rules_are_found(
    mutant: Callable[[pytest.MonkeyPatch], None], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert any(f" {finding}: " in it for seed in range(ENOUGH) for it in play(seed))
