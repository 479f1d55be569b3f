"""What this process lacks is told apart from what others do."""

import errno

import pytest

from edge_sidecars.kubeapi import NotSent, Unreachable
from edge_sidecars.runtime.scarcity import SCARCITIES, scarcity
from relay_sidecar.core.link import LinkEvidence, UpstreamLink
from relay_sidecar.upstream.failures import evidence_of


def caused(error: Exception, cause: BaseException) -> Exception:
    try:
        raise error from cause
    except type(error) as raised:
        return raised


@pytest.mark.parametrize("number", sorted(SCARCITIES))
@pytest.mark.parametrize("kind", [Unreachable, NotSent])
def test_a_scarcity_is_found_in_the_chain_of_causes_and_says_nothing_of_the_link(
    number: int, kind: type[Unreachable]
) -> None:
    inner = caused(RuntimeError("in between"), OSError(number, "lack"))
    error = caused(kind("cannot connect"), inner)
    assert scarcity(error) == number
    assert isinstance(error, Unreachable)
    assert evidence_of(error) is LinkEvidence.SCARCE


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ETIMEDOUT, errno.ECONNRESET])
def test_what_others_do_is_no_scarcity(number: int) -> None:
    error = caused(Unreachable("cannot connect"), OSError(number, "theirs"))
    assert scarcity(error) is None


@pytest.mark.parametrize("is_up", [True, False])
def test_the_verdict_stays_however_often_there_is_nothing_left(is_up: bool) -> None:
    link = UpstreamLink(probe_interval=1.0, probe_timeout=0.9)
    now = 0.0
    for _ in range(4):
        link.probing(now)
        link.probed(LinkEvidence.ANSWERED if is_up else LinkEvidence.REFUSED, now)
        now += 1.0
    for _ in range(10):
        link.met(LinkEvidence.SCARCE, now)
        link.probing(now)
        link.probed(LinkEvidence.SCARCE, now + 0.1)
        assert link.is_up(now) is is_up
        now += 0.1
