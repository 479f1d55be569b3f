"""No object and no report ends an LC, and slow servers keep no other file waiting."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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


LINES = b"Content-Length: 4\r\n\r\n1\n2\n"
# By name: what a server answers, and the dataset's note.
ANSWERS = {
    "tag": (b'HTTP/1.1 200 OK\r\nETag: "caf\xe9"\r\n' + LINES, "2 samples"),
    "date": (b"HTTP/1.1 200 OK\r\nLast-Modified: \xff\xfe\r\n" + LINES, "2 samples"),
    "long": (b'HTTP/1.1 200 OK\r\nETag: "' + b"x" * 7000 + b'"\r\n' + LINES, "2 samples"),
    "bytes": (b"HTTP/1.1 500 \xe9\r\nContent-Length: 3\r\n\r\n\0\xe9\n", "answered 500"),
    "moved": (b"HTTP/1.1 302 F\r\nLocation: http://\xff/\r\n\r\n", "problem: http://"),
    "none": (b"\xff\0\xfe", "problem: http://"),
}
# The same of an endpoint of S3, asked where the bucket is.
BUCKETS = {
    "xml": (b"HTTP/1.1 200 OK\r\n" + LINES, "2 samples"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "0 samples"),
    "halves": (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff\xfe\xe9", "1 samples"),
    "denied": (
        b"HTTP/1.1 403 F\r\nContent-Type: application/xml\r\n" + LINES,
        "answered 403 1 2",
    ),
    "metadata": (
        b"HTTP/1.1 307 T\r\nLocation: http://169.254.169.254/\r\n\r\n",
        "169.254.169.254 is of the node itself",
    ),
}


def test_nothing_that_a_server_answers_ends_it(tmp_path: Path) -> None:
    """Each by a connection of its own, to one server."""
    said = {name: answer for name, (answer, _) in (ANSWERS | BUCKETS).items()}
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        path = connection.recv(65536).split(b" ")[1].decode()
                        connection.sendall(said[path.strip("/").split("/")[0].split("?")[0]])
                        connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=serve, daemon=True).start()
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        (tmp_path / "shop/key").mkdir(parents=True)
        values = {"s3-endpoint": f"http://{host}", "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b"}
        for key, value in values.items():
            (tmp_path / "shop/key" / key).write_text(value)
        objects = [dataset(name, f"http://{host}/{name}") for name in ANSWERS]
        fields = {"format": "txt", "nodeName": "edge-a", "credentialName": "key"}
        objects += [resource("Dataset", it, url=f"s3://{it}/x", **fields) for it in BUCKETS]
        with stocked(*objects, flags=[f"--secrets-dir={tmp_path}"]) as lc:
            wanted = {name: note for name, (_, note) in (ANSWERS | BUCKETS).items()}
            lc.until(
                lambda _: all(note in lc.notes()[f"dataset {it}"] for it, note in wanted.items())
            )
            assert "Traceback" not in lc.log_text()
        listener.shutdown(socket.SHUT_RDWR)


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
