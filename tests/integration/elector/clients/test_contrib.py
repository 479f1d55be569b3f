"""The drop-in for contrib's leader-elector: its flags, its bytes, on a Lease."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tools.harness.controlplane.clients.answer import Answer, ask
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import Fleet
from tools.harness.pods.observers.observer import wait_for


class Contrib:
    """One process that is started as contrib's was, with its flags alone."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.port = 0

    def wait_listening(self) -> None:
        wait_for(lambda: self._ports() != [], timeout=30, what=f"a start: {self.log.read_text()}")
        [self.port] = self._ports()

    def _ports(self) -> list[int]:
        for line in self.log.read_text().splitlines():
            if " contending " in line:
                [listen] = [word for word in line.split() if word.startswith("listen=")]
                return [int(each.rpartition(":")[2]) for each in listen.split(",")]
        return []

    def name(self, path: str = "/", *, method: str = "GET") -> Answer:
        answer = ask(self.port, path, method=method, timeout=5)
        assert answer is not None
        return answer


@contextmanager
def contrib(plane: ControlPlane, namespace: str, folder: Path, *flags: str) -> Iterator[Contrib]:
    account = plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
    log = folder / "log"
    environ = {
        "PATH": "/usr/bin:/bin",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(plane.port),
        "ELECTOR_SERVICE_ACCOUNT_DIR": str(account.path),
        # What a Service named elector injects.
        "ELECTOR_PORT": "tcp://10.0.0.7:4040",
        "ELECTOR_SERVICE_HOST": "10.0.0.7",
    }
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "elector_sidecar", *flags], stderr=stderr, env=environ
        )
    try:
        yield Contrib(process, log)
    finally:
        process.kill()
        process.wait()


def lease(plane: ControlPlane, namespace: str, name: str) -> dict[str, Any]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    status, body = plane.admin.get(path)
    assert status == 200, body
    return body


@pytest.mark.parametrize("dash", ["-", "--"])
def test_contribs_command_line_leads_and_answers_its_bytes(
    control_plane: ControlPlane, namespace: str, tmp_path: Path, dash: str
) -> None:
    with Fleet(control_plane, namespace, lease="example") as fleet:
        fleet.create_empty_lease()
    flags = [
        f"{dash}election=example",
        f"{dash}election-namespace={namespace}",
        f"{dash}id=gm-0",
        f"{dash}ttl=10s",
        f"{dash}http=127.0.0.1:0",
        f"{dash}use-cluster-credentials=true",
    ]
    with contrib(control_plane, namespace, tmp_path, *flags) as pod:
        pod.wait_listening()
        wait_for(lambda: pod.name().body != b'{"name":""}', timeout=20, what="a leader")
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            for path in ("/", "/any/path", "/index.html?x=y"):
                answer = pod.name(path, method=method)
                assert (answer.status, answer.body) == (200, b'{"name":"gm-0"}'), (method, path)
                assert answer.headers["Content-Length"] == "15"
        for method in ("HEAD", "OPTIONS"):
            answer = pod.name("/", method=method)
            assert (answer.status, answer.body) == (200, b""), method
        assert pod.name("/readyz").status == 200, "our own paths are there too"
        spec = lease(control_plane, namespace, "example")["spec"]
        assert spec["holderIdentity"].startswith("gm-0_")
        assert spec["leaseDurationSeconds"] == 10
        assert "raised" not in pod.log.read_text()


def test_the_name_is_that_of_whoever_leads_and_empty_before(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """The contrib images went on naming the old leader (contrib#2930)."""
    with Fleet(control_plane, namespace, lease="example") as fleet:
        fleet.create_empty_lease()
        fleet.edit(spec={"holderIdentity": "<a&b>", "leaseDurationSeconds": 600})
        flags = ["--election=example", f"--election-namespace={namespace}", "--http=127.0.0.1:0"]
        with contrib(control_plane, namespace, tmp_path, *flags) as pod:
            pod.wait_listening()
            escaped = b'{"name":"\\u003ca\\u0026b\\u003e"}'  # as Go's encoding/json has it
            wait_for(lambda: pod.name().body == escaped, timeout=20, what="the foreign holder")
            assert json.loads(pod.name().body) == {"name": "<a&b>"}
            fleet.edit(spec={"holderIdentity": "gm-1_2b7c"})
            wait_for(lambda: pod.name().body == b'{"name":"gm-1"}', timeout=20, what="the next one")
            fleet.edit(spec={"holderIdentity": ""})
            wait_for(lambda: pod.name().body == b'{"name":""}', timeout=20, what="nobody")


def test_a_short_ttl_is_raised_with_a_warning(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    with Fleet(control_plane, namespace, lease="example") as fleet:
        fleet.create_empty_lease()
    flags = ["--election=example", f"--election-namespace={namespace}", "--ttl=1s"]
    with contrib(control_plane, namespace, tmp_path, *flags, "--http=127.0.0.1:0") as pod:
        pod.wait_listening()
        warnings = [line for line in pod.log.read_text().splitlines() if "WARNING" in line]
        assert len(warnings) == 1
        assert "--ttl 1s was raised to 3s" in warnings[0]
        wait_for(lambda: pod.name("/readyz").status == 200, timeout=20, what="it leads")
        assert lease(control_plane, namespace, "example")["spec"]["leaseDurationSeconds"] == 3
        wait_for(
            lambda: (pod.name("/leader").json()["termSeconds"] or 0) > 4,
            timeout=60,
            what="a term that is longer than the lease",
        )


def test_the_leader_can_be_asked_to_resign_from_this_machine(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """From others not, though contrib's listener is often on all addresses: see test_web.py."""
    with Fleet(control_plane, namespace, lease="example") as fleet:
        fleet.create_empty_lease()
    flags = ["--election=example", f"--election-namespace={namespace}", "--http=127.0.0.1:0"]
    with contrib(control_plane, namespace, tmp_path, *flags) as pod:
        pod.wait_listening()
        wait_for(lambda: pod.name("/readyz").status == 200, timeout=20, what="it leads")
        assert pod.name("/resign?cooldown=1s", method="POST").status == 200
        assert pod.name("/readyz").status == 503
