"""`kubectl elector` where a Lease was written by somebody's hand, or is none at all: each command
ends with an answer or one line, and never with a command for the terminal."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tools.harness.controlplane.api_server import ApiServer
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.processes.command import run

OURS = "edge-sidecars.io/"
NOW = "2026-01-01T00:00:00.000000Z"
LAST = "9999-12-31T23:59:59.000000Z"
FIRST = "0001-01-01T00:00:00.000000Z"
MOVE = '{"to":"pod-1","id":"x","until":"2100-01-01T00:00:00Z","more":[1]}'
# Ends the line, clears a terminal, writes from right to left.
COMMANDS = "\x1b[2J\n\u202epod\x07_1"
BY_HAND: dict[str, tuple[dict[str, object], dict[str, str]]] = {
    "late": ({"renewTime": LAST, "acquireTime": LAST, "leaseDurationSeconds": 2**31 - 1}, {}),
    "early": ({"renewTime": FIRST, "acquireTime": FIRST}, {}),
    "bare": ({}, {"holder": "pod-0_1"}),
    "terminal": (
        {"holderIdentity": COMMANDS, "renewTime": NOW},
        {"history": json.dumps([{"holder": COMMANDS, "from": FIRST, "why": COMMANDS}])},
    ),
    "surrogate": (
        {"renewTime": NOW},
        {
            "hold": '{"id":"\\ud800","until":"2100-01-01T00:00:00Z"}',
            "history": '[{"holder":"\\ud800","from":"2026-01-01T00:00:00Z"}]',
        },
    ),
    "huge": ({"renewTime": NOW}, {"hold": "{" * 60_000, "history": "[" * 60_000, "shards": "[["}),
    "half": ({"renewTime": NOW}, {"hold": "7", "switchover": MOVE, "priority": "9" * 5000}),
}
VERBS = (
    ("status",),
    ("status", "-o", "json"),
    ("history",),
    ("history", "-o", "json"),
    ("shards",),
    ("switchover", "--timeout", "1s"),
    ("hold", "--for", "1s", "--timeout", "0s"),
    ("resume", "--timeout", "0s"),
)


def written_by_hand(plane: ApiServer, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    for name, (spec, annotations) in BY_HAND.items():
        body = {
            "metadata": {
                "name": name,
                "annotations": {f"{OURS}{key}": text for key, text in annotations.items()},
            },
            "spec": {"holderIdentity": "pod-0_1", "leaseDurationSeconds": 15} | spec,
        }
        status, answer = plane.admin.post(path, body)
        assert status == 201, answer


def ended(*words: str) -> str:
    """What it has written, of which each character can be shown."""
    done = run("ctl", *words)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.count("\n") <= 1, done.stderr
    output = done.stdout + done.stderr
    assert output
    assert all(line.isprintable() for line in output.split("\n")), repr(output)
    return output


@pytest.mark.slow
def test_each_command_ends_whatever_is_written_into_a_lease(
    control_plane: ControlPlane, namespace: str
) -> None:
    rules = [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    written_by_hand(control_plane, namespace)
    kubeconfig = control_plane.kubeconfig_for(namespace, "operator", rules)
    flags = ("--kubeconfig", str(kubeconfig))
    output = ended("status", "half", *flags)
    assert "switchover to pod-1 by 2100-01-01T00:00:00Z" in output
    assert "ignored: annotation edge-sidecars.io/hold: '7' is not a JSON object" in output
    listed = ended("list", "--all", *flags)
    assert all(name in listed for name in BY_HAND)
    ended("list", "--all", "-o", "json", *flags)
    for name in BY_HAND:
        for verb, *more in VERBS:
            ended(verb, name, *more, *flags)


class _Answers(BaseHTTPRequestHandler):
    """One answer for all, which a test sets."""

    body = b""
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.send_header("Date", "yesterday")
        self.end_headers()
        self.wfile.write(self.body)

    def do_PUT(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def stranger() -> Iterator[str]:
    """The URL of a server that is no API server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    with closing(server.socket):
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b"<html>log in</html>"),
        (200, b"{}"),
        (200, b"[" * 100_000),
        (200, b'{"metadata":7,"items":[]}'),
        (200, b'{"metadata":{"resourceVersion":"1"},"items":7}'),
        (200, b'{"metadata":{"resourceVersion":"1"},"items":[7,{"metadata":{},"spec":1}]}'),
        (302, b""),
        (401, b"\x1b[2J"),
        (500, b"x" * 100_000),
    ],
)
def test_what_is_no_api_server_is_said_in_one_line(
    stranger: str, status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answers, "status", status)
    monkeypatch.setattr(_Answers, "body", body)
    flags = ("--server", stranger, "--namespace", "shop")
    for verb in (("status", "-o", "json"), ("shards",), ("history",), ("hold", "--timeout", "0s")):
        ended(verb[0], "shop", *verb[1:], *flags)
    assert "is empty: name a value" in run("ctl", "status", "", *flags).stderr
