"""The table of tools/bench/gm judges what was measured, and nothing else."""

import pytest

from tools.bench.gm.scenarios import datasets, failover, jobs, latency, shards
from tools.bench.gm.targets import BEYOND_LEASE, lease_bound, rows
from tools.bench.samples import REFERENCE, Result, Results
from tools.bench.table import Heads, Row, table


def judged(*results: Result) -> list[Row]:
    """Rows of which something was promised."""
    return [row for row in rows(Results(results)) if row.is_met is not None]


def test_only_what_was_measured_has_rows() -> None:
    assert rows(Results([])) == []
    [row] = judged(Result(datasets.STATUSES, samples=[{"per_second": 150}]))
    assert row.is_met


def test_one_loss_in_one_run_is_too_many() -> None:
    runs = [{"lost": 0, "seconds": 1.0}, {"lost": 1, "seconds": 1.0}, {"lost": 0, "seconds": 1.0}]
    [row] = judged(Result(datasets.BURST, samples=runs))
    assert row.is_met is False


def test_what_failed_in_every_run_is_not_reached() -> None:
    found = judged(Result(jobs.FL.scenario, failures=["it did not start"]))
    assert [row.is_met for row in found] == [False, False]


@pytest.mark.parametrize(("bare", "is_met"), [((50.0, 20.0), True), ((51.0, 60.0), False)])
def test_jobs_are_judged_by_their_rate_and_by_that_of_the_bare_loop_in_the_same_run(
    bare: tuple[float, float], is_met: bool
) -> None:
    ours = Result(jobs.IL.scenario, samples=[{"per_second": 30.0}, {"per_second": 30.0}])
    reference = Result(jobs.IL.scenario, REFERENCE, [{"per_second": it} for it in bare])
    rate, ratio = judged(ours, reference)
    assert rate.is_met
    assert ratio.is_met is is_met


def test_a_crash_may_take_the_lease_and_a_little_more_and_a_stop_may_not() -> None:
    """Of electors of fleets whose leader is killed: 6 s and the jitter of a takeover."""
    assert lease_bound() == pytest.approx(6.05)
    sample = {"served": lease_bound() + BEYOND_LEASE - 0.1, "acts": 7.0}
    killed = Result(failover.scenario("relay", failover.KILLED), samples=[sample])
    stopped = Result(failover.scenario("relay", failover.STOPPED), samples=[sample])
    assert [row.is_met for row in judged(killed)] == [True]
    assert [row.is_met for row in judged(stopped)] == [False]


def test_the_table_tells_sednas_figure_and_the_verdict() -> None:
    sample = {"p50": 12.0, "p99": 20.0}
    result = Result(latency.LATENCIES["active-standby"], samples=[sample])
    [line] = [
        it
        for it in table(rows(Results([result])), Heads("ours", "reference", "Sedna")).splitlines()
        if it.endswith("NO")
    ]
    assert "12.0 ms" in line
    assert "4.2 ms" in line
    assert "<= 10 ms" in line


@pytest.mark.parametrize(("busiest", "is_met"), [(4.4, True), (4.6, False)])
def test_shards_are_judged_by_the_busiest_gm_beside_the_leader_of_the_same_run(
    busiest: float, is_met: bool
) -> None:
    told = {"all": 12.0, "pod": 9.0, "seconds": 40.0, "lost": 0, "doubled": 0}
    ours = Result(shards.SHARES, samples=[{"busiest": busiest, **told}])
    reference = Result(shards.SHARES, REFERENCE, [{"busiest": 10.0, **told}])
    share, lost, doubled = judged(ours, reference)
    assert share.is_met is is_met
    assert lost.is_met
    assert doubled.is_met
