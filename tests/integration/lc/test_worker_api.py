"""What workers are answered, and by whom LC may be asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lc.stocked import stocked, waiting
from tests.unit.lc.documents import dataset, document
from tools.harness.controlplane.clients.answer import Answer, ask
from tools.harness.pods.lc import LcProcess

JOB = document("federatedlearningjob", "job")
FROM_JOB = {
    "namespace": "shop",
    "ownerName": "job",
    "ownerKind": "federatedlearningjob",
    "kind": "train",
    "status": "running",
    "ownerInfo": {"currentRound": 3, "sampleCount": 640},
    "results": [{"format": "ckpt", "url": "/m/1.ckpt", "metrics": {"acc": [0.8]}}],
}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def lc() -> Iterator[LcProcess]:
    with stocked(JOB, dataset("d1")) as it:
        yield it
        assert "Traceback" not in it.log_text()


def post(lc: LcProcess, body: bytes, headers: dict[str, str], worker: str = "w") -> Answer:
    return lc.ask(f"/sedna/workers/{worker}/info", method="POST", body=body, headers=headers)


def test_a_report_is_answered_as_sedna_answers(lc: LcProcess) -> None:
    answer = lc.report("train-0", FROM_JOB)
    assert answer is not None
    assert (answer.status, answer.json()) == (200, {"Status": 200, "Message": "OK"})
    assert answer.headers["Content-Type"] == "application/json"


def test_what_was_answered_is_on_disk_with_what_gm_needs(lc: LcProcess) -> None:
    answer = lc.report("train-1", FROM_JOB)
    assert answer is not None
    [report] = [each for each in waiting(lc) if each.worker == "train-1"]
    assert (report.uid, report.kind, report.name) == (JOB.uid, JOB.kind, JOB.name)
    body = json.loads(report.body)
    assert (body["phase"], body["status"]) == ("train", "running")
    assert body["output"]["ownerInfo"] == FROM_JOB["ownerInfo"]
    assert body["output"]["models"] == FROM_JOB["results"]


def test_the_same_body_again_is_the_same_report(lc: LcProcess) -> None:
    before = [each for each in waiting(lc) if each.worker == "train-2"]
    assert before == []
    for _ in range(3):
        answer = lc.report("train-2", FROM_JOB)
        assert answer is not None
        assert answer.status == 200
    [first] = [each for each in waiting(lc) if each.worker == "train-2"]
    lc.report("train-2", FROM_JOB | {"status": "completed"})
    [second] = [each for each in waiting(lc) if each.worker == "train-2"]
    assert second.seq > first.seq


def _told(**changes: object) -> bytes:
    return json.dumps({"name": "w", **FROM_JOB, **changes}).encode()


@pytest.mark.parametrize(
    ("body", "headers", "status", "told"),
    [
        (b"{", JSON, 400, "no JSON"),
        (b"[]", JSON, 400, "not an object"),
        # Python 3.13 reads as deep as that, and finds no worker in it.
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, JSON, 400, "the body"),
        (_told(name="other"), JSON, 400, "the path names worker"),
        (_told(namespace=7), JSON, 400, "namespace is not a text"),
        (_told(results={}), JSON, 400, "results"),
        (_told(ownerInfo={"x": "y" * 70_000}), JSON, 400, "bytes"),
        (_told(ownerInfo={"x": "y" * 300_000}), JSON, 413, "longer than"),
        (_told(ownerName="strange", ownerInfo={"x": "y" * 70_000}), JSON, 400, "bytes"),
        (_told(ownerName="Strange"), JSON, 400, "ownerName"),
        (_told(ownerName=""), JSON, 400, "ownerName"),
        (_told(namespace="../shop"), JSON, 400, "namespace"),
        (_told(ownerKind="incrementallearningjob", results=[{"url": 7}]), JSON, 400, "url"),
        (_told(ownerKind="dataset", ownerName="d1"), JSON, 400, "no workers"),
        (b"name=w", {"Content-Type": "text/plain"}, 415, "send application/json"),
        (_told(), {}, 415, "that is missing"),
        (_told(), {"Content-Type": "application/xml"}, 415, "send application/json"),
        (_told(), JSON | {"Origin": "http://evil.example"}, 403, "Origin"),
        (_told(), JSON | {"Origin": "null"}, 403, "Origin"),
        (_told(), JSON | {"Sec-Fetch-Site": "cross-site"}, 403, "Sec-Fetch-Site"),
        (_told(), JSON | {"Sec-Fetch-Site": "same-site"}, 403, "Sec-Fetch-Site"),
        (_told(name="w", namespace="\ud800"), JSON, 400, ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(
    lc: LcProcess, body: bytes, headers: dict[str, str], status: int, told: str
) -> None:
    answer = post(lc, body, headers)
    assert (answer.status, answer.json()["Status"]) == (status, status)
    assert told in answer.json()["Message"]
    assert [each for each in waiting(lc) if each.worker == "w"] == []


def test_workers_that_lc_does_nothing_for_are_answered_ok(lc: LcProcess) -> None:
    assert post(lc, _told(ownerKind="videoanalyticsjob"), JSON).status == 200


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/sedna/workers/w/info", "GET", 405),
        ("/livez", "POST", 405),
        ("/sedna/workers/w", "POST", 404),
        ("/", "GET", 404),
        ("/livez", "GET", 200),
        ("/livez", "OPTIONS", 200),
        ("/readyz", "GET", 200),
        ("/metrics", "GET", 200),
        ("/status", "GET", 200),
    ],
)
def test_paths_and_methods(lc: LcProcess, path: str, method: str, status: int) -> None:
    assert lc.ask(path, method=method).status == status


def test_people_see_what_the_node_knows(lc: LcProcess) -> None:
    found = lc.ask("/sedna/objects").json()["objects"]
    assert [(it["kind"], it["namespace"], it["name"]) for it in found] == [
        ("dataset", "shop", "d1"),
        ("federatedlearningjob", "shop", "job"),
    ]


def test_a_browser_gets_the_page_and_its_document_is_the_status(lc: LcProcess) -> None:
    page = lc.ask("/", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (page.status, b"page/lc.js" in page.body) == (200, True)
    assert lc.ask("/page/lc.js").status == 200
    document = lc.ask("/status/events").json()["status"]
    assert document.keys() == lc.ask("/status").json().keys()
    assert [it["name"] for it in document["objects"]] == ["d1", "job"]
    assert lc.ask("/").status == 404, "a program gets what it got before there was a page"


def test_answers_are_counted(lc: LcProcess) -> None:
    def refused() -> int:
        lines = [it for it in lc.metrics().splitlines() if 'requests_total{status="400"}' in it]
        return int(lines[0].split()[-1]) if lines else 0

    before = refused()
    post(lc, _told(ownerName=""), JSON)
    assert refused() == before + 1


# ── who may ask ──


def test_a_page_of_a_browser_speaks_for_nobody(lc: LcProcess) -> None:
    """DNS rebinding: its name leads here, and its requests have that name."""
    assert lc.ask("/status", headers={"Host": "evil.example:9100"}).status == 421
    assert lc.ask("/status", headers={"Host": "localhost:9100"}).status == 200
    assert lc.ask("/status", headers={"Host": "[::1]:9100"}).status == 200


def test_it_listens_on_no_other_address_by_itself(lc: LcProcess) -> None:
    assert ask(lc.port, "/livez", host="127.0.0.2") is None


def test_by_the_nodes_address_the_token_is_asked_for(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-that-is-long\n")
    with stocked(JOB) as free:
        port = free.port
    flags = [f"--node-listen=127.0.0.2:{port}", f"--token-file={token}"]
    with stocked(JOB, flags=flags) as lc:

        def told(path: str, **headers: str) -> int:
            answer = ask(port, path, host="127.0.0.2", headers=headers)
            assert answer is not None
            return answer.status

        assert told("/livez") == 200
        assert told("/status") == 401
        assert told("/", Accept="text/html") == told("/status/events") == 401
        assert told("/status", Authorization="Bearer wrong-but-just-as-long") == 401
        assert told("/status", Authorization="Bearer a-token-that-is-long") == 200
        token.write_text("another-token-that-is-long\n")
        assert told("/status", Authorization="Bearer a-token-that-is-long") == 401
        assert told("/status", Authorization="Bearer another-token-that-is-long") == 200
        token.unlink()
        assert told("/status", Authorization="Bearer another-token-that-is-long") == 401
        assert lc.ask("/status").status == 200
