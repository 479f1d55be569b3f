"""Datasets are counted, what is wrong with them is said, and both are reported."""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edge_sidecars.sedna_api.core.report import Report
from tests.integration.lc.stocked import change, stocked, waiting
from tests.unit.lc.documents import dataset
from tools.harness.pods.lc import PATIENCE, LcProcess

# As another user than root would be.
WITHOUT_OVERRIDE = (
    *("setpriv", "--bounding-set=-dac_override,-dac_read_search"),
    *("--inh-caps=-dac_override,-dac_read_search", "--"),
)


def noted(lc: LcProcess, name: str, told: str) -> str:
    """The note of a dataset, once it has that in it."""
    lc.until(lambda status: told in _note(status, name))
    return lc.notes()[f"dataset {name}"]


def _note(status: dict[str, object], name: str) -> str:
    objects = status["objects"]
    assert isinstance(objects, list)
    [note] = [str(it["note"]) for it in objects if it["name"] == name]
    return note


def reported(lc: LcProcess, name: str, body: object) -> Report:
    """The one report that waits for a dataset, once it says this."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = [it for it in waiting(lc) if it.name == name]
        if found and json.loads(found[-1].body) == body:
            assert len(found) == 1
            return found[0]
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_lines_are_counted_and_reported() -> None:
    with stocked(dataset("a", "/srv/a.txt"), dataset("b", "/srv/b.csv", form="csv")) as lc:
        lc.write("/srv/a.txt", "one\ntwo\nthree")
        lc.write("/srv/b.csv", "x,y\n1,2\n")
        noted(lc, "a", "3 samples")
        noted(lc, "b", "1 samples")
        reported(lc, "a", {"numberOfSamples": 3})
        reported(lc, "b", {"numberOfSamples": 1})


def test_a_file_that_grows_is_truncated_or_rotated_is_counted_right() -> None:
    lc = stocked(dataset("a"))
    place = lc.write("/srv/d.txt", "1\n2\n")
    with lc:
        noted(lc, "a", "2 samples")
        with place.open("a") as file:
            file.write("3\n4\n5")
        noted(lc, "a", "5 samples")
        place.write_text("1\n")
        noted(lc, "a", "1 samples")
        (place.parent / "new").write_text("1\n2\n3\n4\n5\n6\n")
        (place.parent / "new").rename(place)
        noted(lc, "a", "6 samples")
        reported(lc, "a", {"numberOfSamples": 6})


def test_only_what_is_new_of_a_file_is_read_also_after_a_restart() -> None:
    lc = stocked(dataset("a"))
    place = lc.write("/srv/d.txt", "")
    with place.open("a") as file:
        for _ in range(40):
            file.write("x" * (1024 * 1024 - 1) + "\n")
    with lc:
        # On the disk together with how far it was counted.
        reported(lc, "a", {"numberOfSamples": 40})
        lc.kill()
        lc.start()
        # Before it is looked at: it was counted already.
        assert lc.notes()["dataset a"] == "40 samples"
        with place.open("a") as file:
            file.write("one more\n")
        noted(lc, "a", "41 samples")
        read = Path(f"/proc/{lc.pid}/io").read_text().splitlines()[0]
        assert int(read.removeprefix("rchar: ")) < 30 * 1024 * 1024


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda place: None, "does not exist on this node: create it"),
        (lambda place: place.mkdir(), "is a directory: spec.url must name one file"),
        (lambda place: os.mkfifo(place), "is not a regular file"),
        (lambda place: place.symlink_to("d.txt"), "Too many levels of symbolic links"),
        (lambda place: place.symlink_to("/nowhere"), "does not exist on this node"),
    ],
)
def test_what_is_wrong_is_reported_with_what_to_do_and_so_is_the_repair(
    make: Callable[[Path], object], told: str
) -> None:
    lc = stocked(dataset("a"))
    place = lc.write("/srv/d.txt", "")
    place.unlink()
    make(place)
    with lc:
        note = noted(lc, "a", told)
        reported(lc, "a", {"problem": note.removeprefix("problem: ")})
        assert "lc_dataset_problems 1" in lc.metrics()
        if place.is_symlink() or not place.is_dir():
            place.unlink(missing_ok=True)
        else:
            place.rmdir()
        place.write_text("1\n")
        noted(lc, "a", "1 samples")
        reported(lc, "a", {"numberOfSamples": 1})
        assert "lc_dataset_problems 0" in lc.metrics()


def test_a_file_that_may_not_be_read_is_said_until_it_may() -> None:
    lc = stocked(dataset("a"), prefix=WITHOUT_OVERRIDE)
    place = lc.write("/srv/d.txt", "1\n")
    place.chmod(0)
    with lc:
        noted(lc, "a", "may not be read by LC: give it read permission")
        place.chmod(0o600)
        noted(lc, "a", "1 samples")


def test_edits_of_url_and_format_take_effect() -> None:
    lc = stocked(dataset("a", "/srv/a.txt"))
    lc.write("/srv/a.txt", "1\n2\n")
    lc.write("/srv/b.txt", "1\n2\n3\n")
    with lc:
        noted(lc, "a", "2 samples")
        lc.kill()
        change(lc, dataset("a", "/srv/b.txt", version=2))
        lc.start()
        noted(lc, "a", "3 samples")
        lc.kill()
        change(lc, dataset("a", "/srv/b.txt", form="csv", version=3))
        lc.start()
        noted(lc, "a", "2 samples")
        reported(lc, "a", {"numberOfSamples": 2})


# ── elsewhere ──


class Web:
    """Serves one file, which tests change; counts what it sent."""

    def __init__(self) -> None:
        self.content = b""
        self.tag = '"1"'
        self.sent: list[int] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path != "/d.txt":
                    self.send_error(404, "no such file")
                    return
                is_known = self.headers.get("If-None-Match") == owner.tag
                owner.sent.append(304 if is_known else 200)
                self.send_response(owner.sent[-1])
                self.send_header("ETag", owner.tag)
                body = b"" if is_known else owner.content
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def web() -> Iterator[Web]:
    it = Web()
    yield it
    it.close()


def test_a_remote_file_is_fetched_when_it_changed(web: Web) -> None:
    web.content = b"1\n2\n"
    with stocked(dataset("a", f"{web.url}/d.txt"), dataset("b", f"{web.url}/none")) as lc:
        noted(lc, "a", "2 samples")
        noted(lc, "b", "answered 404")
        deadline = time.monotonic() + 20
        while web.sent[-2:] != [304, 304]:
            assert time.monotonic() < deadline, web.sent
            time.sleep(0.02)
        assert web.sent.count(200) == 1
        web.content, web.tag = b"1\n2\n3\n", '"2"'
        noted(lc, "a", "3 samples")
        assert web.sent.count(200) == 2
