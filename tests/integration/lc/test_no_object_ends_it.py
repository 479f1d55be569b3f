"""No object and no report ends an LC, and slow servers keep no other file waiting."""

import socket
from collections.abc import Iterator

import pytest

from lc.files.remote_files import PER_HOST
from lc.workers.datasets import AT_ONCE
from tests.integration.lc.learning_job import parsed, resource
from tests.integration.lc.stocked import stocked
from tests.unit.lc.documents import dataset
from tests.unit.lc.learning.jobs import condition
from tests.unit.lc.learning.jobs import document as job
from tools.harness.pods.lc import LcProcess

URLS = [
    *("http://host:99999/x", "http://host:0/x", "http://host:x/x", "http://[::1/x", "http:///x"),
    *("http://a..b/x", f"http://{'a' * 64}/x", "s3://", "s3:///x", "ftp://host/x", "file:///x"),
    *("d.txt", "", "/d\0.txt", "/d\n.txt", f"/{'a' * 300}", "/a" * 3000, "http://h:1\0/x"),
]
OUTPUTS = ["out", "", "/", "/srv/../etc", "http://host:99999/x", "/o\0ut", "s3://[", "[::"]


@pytest.fixture(scope="module")
def lc() -> Iterator[LcProcess]:
    bad = [dataset(f"d{number}", url) for number, url in enumerate(URLS)]
    jobs = [
        parsed(
            job(condition("Train", "Waiting", 1), outputDir=it)
            | {"metadata": {"namespace": "shop", "name": f"j{number}", "uid": f"u{number}"}},
            version=1,
        )
        for number, it in enumerate(OUTPUTS)
    ]
    models = [
        resource("Model", f"m{number}", url=it, format="pb") for number, it in enumerate(URLS)
    ]
    good = dataset("good", form="CSV")
    with stocked(*bad, *jobs, *models, good) as it:
        it.write("/srv/d.txt", "header\n1\n")
        yield it


def test_what_cannot_be_an_address_is_named_with_its_field(lc: LcProcess) -> None:
    lc.until(lambda _: lc.notes()["dataset good"] == "1 samples")

    def told(_: object) -> bool:
        notes = lc.notes()
        return all(
            "InvalidSpec: spec.url" in notes[f"dataset d{number}"] for number in range(len(URLS))
        )

    lc.until(told)
    notes = lc.notes()
    for number in range(len(OUTPUTS)):
        assert "spec.outputDir" in notes[f"incrementallearningjob j{number}"]
    assert "Traceback" not in lc.log_text()


def test_slow_servers_keep_no_file_and_no_other_server_waiting() -> None:
    """They take the connection and never say a word."""
    slow = []
    for number in range(AT_ONCE + PER_HOST):
        server = socket.create_server((f"127.0.0.{number + 10}", 0))
        slow.append(server)
    names = [
        dataset(f"s{index}-{number}", f"http://{it.getsockname()[0]}:{it.getsockname()[1]}/d")
        for index, it in enumerate(slow)
        for number in range(PER_HOST + 1)
    ]
    with stocked(*names, dataset("good"), dataset("gone", "http://127.0.0.9:1/d")) as lc:
        lc.write("/srv/d.txt", "1\n2\n")
        lc.until(lambda _: lc.notes()["dataset good"] == "2 samples")
        lc.until(lambda _: "cannot be reached" in lc.notes()["dataset gone"])
        assert lc.terminate() == 0
    for it in slow:
        it.close()
