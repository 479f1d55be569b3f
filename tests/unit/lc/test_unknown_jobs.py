"""Reports of jobs that LC does not know yet: how many are kept, which go, and for how long."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from lc.core.unknown_jobs import AGEING_INTERVAL, MAX_BYTES, MAX_REPORTS, PATIENCE, UnknownJobs
from lc.core.worker_info import WorkerInfo
from lc.store import open_store
from lc.workers.forwarder import Forwarder
from lc.workers.unknown_jobs import UnknownJobReports
from tests.unit.lc.documents import document

JOB = document("federatedlearningjob", "job")
LARGE = b"x" * (MAX_BYTES // 10)


def key(name: str, namespace: str = "shop") -> ObjectKey:
    return ObjectKey("federatedlearningjob", namespace, name)


def info(worker: str, round_: int) -> WorkerInfo:
    return WorkerInfo(
        name=worker,
        namespace="shop",
        owner_name="job",
        owner_kind="federatedlearningjob",
        owner_info={"currentRound": round_},
        kind="train",
        status="running",
    )


def numbers(jobs: UnknownJobs, namespace: str = "shop") -> list[int]:
    return [it.number for it in jobs.reports.values() if it.key.namespace == namespace]


def test_the_oldest_goes_for_a_new_one() -> None:
    jobs = UnknownJobs()
    for index in range(MAX_REPORTS + 3):
        jobs = jobs.taken(key(f"j{index}"), "w", b"{}")
    assert numbers(jobs) == list(range(4, MAX_REPORTS + 4))


def test_reports_are_bounded_in_bytes_too() -> None:
    jobs = UnknownJobs()
    for index in range(13):
        jobs = jobs.taken(key("j"), f"w{index}", LARGE)
    assert numbers(jobs) == list(range(4, 14))


def test_invented_jobs_push_out_those_of_their_own_namespace() -> None:
    jobs = UnknownJobs().taken(key("real"), "w", b"{}").taken(key("real"), "w", LARGE)
    for index in range(MAX_REPORTS + 100):
        jobs = jobs.taken(key(f"j{index}", "stranger"), "w", b"{}")
    for index in range(12):
        jobs = jobs.taken(key(f"j{index}", "stranger"), "w", LARGE)
    assert numbers(jobs) == [1, 2]
    assert len(jobs.reports) <= MAX_REPORTS


def test_the_same_words_again_are_kept_once() -> None:
    jobs = UnknownJobs().taken(key("j"), "w", b"1").taken(key("j"), "w", b"1")
    assert numbers(jobs) == [1]
    assert numbers(jobs.taken(key("j"), "w", b"2").taken(key("j"), "w", b"1")) == [1, 2, 3]


def test_a_job_is_given_up_after_ten_minutes_until_it_is_known() -> None:
    young, known = key("young"), key("known")
    jobs = UnknownJobs().taken(key("old"), "w", b"{}").taken(known, "w", b"{}")
    jobs = jobs.aged(PATIENCE, {known}.__contains__).taken(young, "w", b"{}")
    # It may have come just before that look.
    assert not jobs.is_given_up(key("old"))
    jobs = jobs.aged(AGEING_INTERVAL, {known}.__contains__)
    assert jobs.is_given_up(key("old"))
    assert [it.key for it in jobs.reports.values()] == [known, young]
    assert not jobs.known(key("old")).is_given_up(key("old"))


class StoreLives:
    """One data directory over several lives of LC."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def live(
        self,
        *infos: WorkerInfo,
        known: tuple[Document, ...] = (),
        elapsed: float = 0.0,
        passes: int = 0,
    ) -> tuple[list[bool], Mapping[str, int], list[int]]:
        """What was taken, what was dropped, and the rounds that wait for GM in the end."""

        async def life() -> tuple[list[bool], Mapping[str, int], list[int]]:
            async with open_store(self._directory) as store:
                reports = UnknownJobReports(store, {JOB.kind: Forwarder(store)}.get)
                running = asyncio.create_task(reports.run())
                taken = [await reports.keep(JOB.key, it) for it in infos]
                if elapsed:
                    await store.age_unknown_jobs(elapsed)
                for it in known:
                    await store.put(it)
                for _ in range(1000):
                    if len(list(store.pending())) >= passes and not (passes and reports.waiting):
                        break
                    await asyncio.sleep(0.01)
                running.cancel()
                rounds = [it.body.count(b'"currentRound":') for it in store.pending()]
                return taken, dict(reports.dropped), rounds

        return asyncio.run(life())


def test_what_was_kept_is_passed_on_in_a_later_life_once_the_job_is_known(tmp_path: Path) -> None:
    store = StoreLives(tmp_path)
    taken, dropped, waiting = store.live(info("a", 1), info("b", 1), info("a", 2))
    assert (taken, sum(dropped.values()), waiting) == ([True] * 3, 0, [])
    assert store.live(known=(JOB,), passes=2)[2] == [1, 1]
    # Nothing is passed on twice.
    assert len(store.live()[2]) == 2


def test_a_job_that_was_given_up_stays_so_over_a_restart(tmp_path: Path) -> None:
    store = StoreLives(tmp_path)
    store.live(info("a", 1), elapsed=PATIENCE + AGEING_INTERVAL)
    assert store.live(info("a", 2))[0] == [False]
    store.live(known=(JOB,))
    assert store.live(info("a", 3), passes=1)[0] == [True]
