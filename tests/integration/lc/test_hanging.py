"""A disk that hangs keeps no other dataset waiting for long, nor the end of the process."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lc.workers.datasets import AT_ONCE
from lc.workers.sample_counter import PATIENCE
from tests.integration.lc.stocked import stocked
from tests.unit.lc.documents import dataset
from tools.harness.pods.lc import LcProcess

# They take all places there are.
HANGING = AT_ONCE
MNT_DETACH = 2


class HangingDisk:
    """A FUSE file system whose server never says a word: whoever opens a file there waits."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._server = os.open("/dev/fuse", os.O_RDWR)
        except OSError:
            pytest.skip("this machine has no /dev/fuse")
        place.mkdir()
        options = f"fd={self._server},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self._libc.mount(b"hanging", bytes(place), b"fuse", 0, options.encode()):
            os.close(self._server)
            pytest.skip("this machine lets nobody mount anything")

    def stop(self) -> None:
        self._libc.umount2(bytes(self._place), MNT_DETACH)
        os.close(self._server)


@pytest.fixture
def hanging() -> Iterator[LcProcess]:
    found = [dataset(f"h{number}", f"/hung/{number}.txt") for number in range(HANGING)]
    lc = stocked(*found, dataset("good"))
    lc.write("/srv/d.txt", "1\n")
    disk = HangingDisk(lc.root / "hung")
    try:
        yield lc.start()
    finally:
        # First: nobody could remove what lies around it.
        disk.stop()
        lc.stop()


@pytest.mark.long
@pytest.mark.slow
def test_others_are_counted_and_it_is_said(hanging: LcProcess) -> None:
    patience = PATIENCE + 60

    def told(status: dict[str, list[dict[str, str]]]) -> bool:
        notes = [it["note"] for it in status["objects"] if it["name"] != "good"]
        return all("the disk has not answered" in note for note in notes)

    hanging.until(lambda status: "1 samples" in str(status["objects"]), timeout=patience)
    hanging.until(told, timeout=patience)
    # It goes on where a disk answers.
    hanging.write("/srv/d.txt", "1\n2\n")
    hanging.until(lambda status: "2 samples" in str(status["objects"]))
    assert hanging.terminate() == 0
    assert "Traceback" not in hanging.log_text()
