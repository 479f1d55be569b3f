"""`elector-sidecar status`: a table or JSON, from an elector or from the API server."""

import json
import re
from pathlib import Path

import pytest

from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for_leader
from tools.harness.pods.wire.http_client import ports
from tools.harness.pods.wire.raw_server import Connection, RawServer
from tools.harness.processes.command import run


def test_status_asks_the_elector_on_this_machine(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    pod = fleet.add()
    wait_for_leader([pod], timeout=10)
    url = f"http://127.0.0.1:{pod.port}"
    # A proxy is for other machines.
    done = run("status", "--url", url, environ={"http_proxy": "http://127.0.0.1:1"})
    assert done.returncode == 0, done.stderr
    rows = {line.split("  ")[0]: line for line in done.stdout.splitlines()}
    assert f"{fleet.namespace}/controller" in rows["LEASE"]
    assert "pod-0" in rows["LEADER"]
    assert pod.identity in rows["IDENTITY"]
    assert " ago)" in rows["SINCE"]
    assert "leader: holds the Lease" in rows["HERE"]
    assert rows["VALID FOR"].endswith("s")
    document = json.loads(run("status", "--url", url, "-o", "json").stdout)
    assert document["holder"] == pod.identity
    assert document["isLeader"] is True


def test_status_asks_over_a_unix_socket(fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "e.sock"
    pod = fleet.add("--listen", f"unix:{path}", "--probe-listen", "127.0.0.1:0")
    [pod.port] = ports(pod)
    done = run("status", "--url", f"unix:{path}")
    assert done.returncode == 1, "nobody leads"
    assert "<none>" in done.stdout


def test_status_needs_no_kubeconfig_for_a_server_over_http(tmp_path: Path) -> None:
    flags = ("--lease", "x", "--namespace", "shop", "--server", "http://127.0.0.1:9")
    done = run("status", *flags, environ={"HOME": str(tmp_path)})
    assert done.returncode == 1
    assert "Lease shop/x: Cannot connect to host 127.0.0.1:9" in done.stderr


def test_status_asks_the_api_server_with_a_kubeconfig(fleet: Fleet) -> None:
    path = fleet.plane.kubeconfig_for(fleet.namespace, "reader", ELECTOR_RULES)
    flags = ("status", "--lease", fleet.lease, "--kubeconfig", str(path))
    missing = run(*flags)
    assert missing.returncode == 1
    assert f"Lease {fleet.namespace}/controller: 404" in missing.stderr
    fleet.create_empty_lease()
    free = run(*flags)
    assert free.returncode == 1
    assert re.search(r"LEADER +<none>", free.stdout)
    pod = fleet.add()
    wait_for_leader([pod], timeout=10)
    led = run(*flags)
    assert led.returncode == 0, led.stderr
    assert re.search(r"LEADER +pod-0", led.stdout)
    assert "HERE" not in led.stdout, "the API server cannot know that"
    document = json.loads(run(*flags, "-o", "json").stdout)
    assert document["holder"] == pod.identity
    assert document["leaseDurationSeconds"] == 4
    from_environ = run("status", "--lease", fleet.lease, environ={"KUBECONFIG": str(path)})
    assert from_environ.returncode == 0


def status_fails(*arguments: str, status: int = 1) -> str:
    done = run("status", *arguments)
    assert done.returncode == status
    assert done.stdout == ""
    assert done.stderr.startswith("elector-sidecar status: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_status_says_when_nobody_answers(tmp_path: Path) -> None:
    assert "--url" in status_fails("--url", "http://127.0.0.1:1")
    assert "--url" in status_fails("--url", f"unix:{tmp_path}/none")
    assert "'gopher://x'" in status_fails("--url", "gopher://x", status=2)
    none = str(tmp_path / "none")
    assert "--kubeconfig" in status_fails("--lease", "x", "--kubeconfig", none, status=2)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"name":"gm-0"}',  # contrib's
        b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"[" * 50_000,
    ],
)
def test_status_says_when_another_than_an_elector_answers(answer: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.send(answer)

    with RawServer(serve) as server:
        assert server.url in status_fails("--url", server.url)


@pytest.mark.parametrize(
    "wrong", [{"lease": {}}, {"lease": ["a"]}, {"role": "leader", "remainingSeconds": "q"}], ids=str
)
def test_a_document_of_other_types_is_no_electors(wrong: dict[str, object]) -> None:
    right = {
        "holder": "a_1",
        "holderPod": "a",
        "lease": {"namespace": "n", "name": "l"},
        "acquireTime": None,
        "renewTime": None,
        "leaseTransitions": 1,
        "reason": "",
    }

    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(json.dumps(right | wrong).encode())

    with RawServer(serve) as server:
        done = run("status", "--url", server.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
