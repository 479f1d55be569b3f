"""An LC that is restarted, cut off, is what it was, from its own store (G6, contract section 7)."""

import time

from tests.integration.lc.stocked import stocked, waiting
from tests.unit.lc.documents import dataset
from tools.harness.pods.lc import LcProcess

DATASETS = 1000
LINES = 1000
# Contract: 80 MB.
MEMORY = 80 * 1000 * 1000


# The beginnings of what is said of a dataset with two lines, and of one without a file.
NOTES = {"2 sampl", "problem"}


def full(lc: LcProcess) -> None:
    def counted(status: dict[str, list[dict[str, str]]]) -> bool:
        return all(it["note"] == f"{LINES} samples" for it in status["objects"])

    lc.until(counted, timeout=60)


def test_a_thousand_datasets_stay_small_and_every_write_succeeds() -> None:
    found = [dataset(f"d{n}", f"/srv/{n}.txt") for n in range(DATASETS)]
    lc = stocked(*found)
    lc.may_fork = False
    content = "a line of some length that a sample has\n" * LINES
    for n in range(DATASETS):
        lc.write(f"/srv/{n}.txt", content)
    with lc:
        full(lc)
        # Some rounds later nothing has grown.
        lc.until(lambda status: _counts(lc) > 4 * DATASETS, timeout=60)
        assert lc.memory() < MEMORY
        assert "lc_store_failures_total 0" in lc.metrics()
        assert len(waiting(lc)) == DATASETS
        lc.kill()
        lc.start(wait=False)
        began_at = time.monotonic()
        lc.wait_ready()
        # The first answer has all of it: the contract says a second.
        status = lc.status()
        took = time.monotonic() - began_at
        assert len(status["objects"]) == DATASETS
        assert {it["note"] for it in status["objects"]} == {f"{LINES} samples"}
        assert status["reports"]["waiting"] == DATASETS
        print(f"full {took:.2f}s after the start; {lc.memory() / 1e6:.0f} MB resident")
        assert "Traceback" not in lc.log_text(all_lives=True)


def _counts(lc: LcProcess) -> int:
    [line] = [it for it in lc.metrics().splitlines() if it.startswith("lc_dataset_counts_total")]
    return int(line.split()[-1])


def test_a_broken_store_is_set_aside_and_said_loudly() -> None:
    with stocked(dataset("a")) as lc:
        before = lc.status()["store"]["id"]
        lc.kill()
        place = lc.data_dir / "lc.sqlite3"
        place.write_bytes(b"broken" * 1000)
        lc.start()
        store = lc.status()["store"]
        assert store["id"] != before
        assert "set aside as lc.sqlite3.aside-1" in store["note"]
        assert "ERROR" in lc.log_text()
        assert "the store was broken: reports that waited in it are lost" in lc.log_text()
        assert "lc_store_set_aside 1" in lc.metrics()
        assert "set aside" in lc.command("status").stdout


def test_a_store_that_vanishes_ends_the_process() -> None:
    with stocked(dataset("a")) as lc:
        lc.write("/srv/d.txt", "1\n")
        lc.until(lambda status: status["objects"][0]["note"] == "1 samples")
        (lc.data_dir / "lc.sqlite3").unlink()
        lc.write("/srv/d.txt", "1\n2\n")
        assert lc.wait() == 1
        assert "the store cannot be used" in lc.log_text()
        assert "was removed or replaced" in lc.log_text()


def test_the_status_command_shows_the_node_to_people() -> None:
    with stocked(dataset("a"), dataset("b", "/srv/missing.txt")) as lc:
        lc.write("/srv/d.txt", "1\n2\n")
        lc.until(lambda status: {it["note"][:7] for it in status["objects"]} == NOTES)
        lc.until(lambda status: status["reports"]["waiting"] == 2)
        told = lc.command("status").stdout
        assert "on edge-a" in told
        assert "LINK     mode stream, down" in told
        assert "REPORTS  2 waiting" in told
        assert "2 dataset" in told
        assert "2 samples" in told
        assert "problem: /srv/missing.txt does not exist on this node" in told
        lc.kill()
        failed = lc.command("status")
        assert failed.returncode == 1
        assert "name its --url" in failed.stderr
