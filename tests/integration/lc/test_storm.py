"""What a worker was answered 200 for is never lost, whatever happens to LC meanwhile (G3)."""

import json
import random
import threading
import time

from tests.integration.lc.stocked import stocked, waiting
from tests.unit.lc.documents import document
from tools.harness.pods.lc import LcProcess

WORKERS = 8
KILLS = 4
JOBS = [document("federatedlearningjob", f"job-{n}") for n in range(WORKERS)]


class Storm:
    """Workers that say one thing after the other, and again what was not answered 200."""

    def __init__(self, lc: LcProcess) -> None:
        self._lc = lc
        self._is_over = threading.Event()
        # By worker: the number in the last words that were answered 200, and in the last said.
        self.answered = dict.fromkeys(range(WORKERS), 0)
        self.said = dict.fromkeys(range(WORKERS), 0)
        self.statuses: set[int] = set()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(WORKERS)]

    def __enter__(self) -> "Storm":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        told = {"namespace": "shop", "ownerName": f"job-{number}", "kind": "train"}
        told |= {"ownerKind": "federatedlearningjob", "status": "running"}
        while not self._is_over.is_set():
            count = self.said[number] = self.answered[number] + 1
            answer = self._lc.report(f"w{number}", {**told, "ownerInfo": {"currentRound": count}})
            if answer is not None:
                self.statuses.add(answer.status)
            if answer is not None and answer.status == 200:
                self.answered[number] = count
            else:
                time.sleep(0.05)


def test_kill_9_in_a_storm_loses_nothing_that_was_answered() -> None:
    chance = random.Random(7)
    with stocked(*JOBS) as lc:
        with Storm(lc) as storm:
            for _ in range(KILLS):
                before = dict(storm.answered)
                while any(storm.answered[n] < before[n] + 5 for n in range(WORKERS)):
                    time.sleep(0.01)
                time.sleep(chance.uniform(0, 0.2))
                lc.kill()
                lc.start()
        lc.kill()
        assert storm.statuses == {200}
        found = {it.worker: json.loads(it.body) for it in waiting(lc)}
        for number in range(WORKERS):
            count = found[f"w{number}"]["output"]["ownerInfo"]["currentRound"]
            # The one after it may have been taken, too, without an answer.
            assert storm.answered[number] <= count <= storm.said[number]
        lc.start()
        assert lc.status()["reports"]["waiting"] == WORKERS


def test_sigterm_in_a_storm_answers_what_it_has_taken() -> None:
    with stocked(*JOBS) as lc:
        with Storm(lc) as storm:
            while min(storm.answered.values()) < 20:
                time.sleep(0.01)
            assert lc.terminate() == 0
        found = {it.worker: json.loads(it.body) for it in waiting(lc)}
        for number in range(WORKERS):
            count = found[f"w{number}"]["output"]["ownerInfo"]["currentRound"]
            assert storm.answered[number] <= count <= storm.said[number]
        assert "Traceback" not in lc.log_text()


def test_a_frozen_lc_goes_on_where_it_was() -> None:
    with stocked(*JOBS) as lc, Storm(lc) as storm:
        while min(storm.answered.values()) < 5:
            time.sleep(0.01)
        lc.freeze()
        time.sleep(0.5)
        before = dict(storm.answered)
        lc.thaw()
        while any(storm.answered[n] < before[n] + 5 for n in range(WORKERS)):
            time.sleep(0.01)
        assert storm.statuses == {200}
