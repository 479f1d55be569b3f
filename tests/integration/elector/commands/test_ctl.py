"""`kubectl elector`, by the real kubectl, before a real kube-apiserver with fifty candidates."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.repository.checkout import block
from tools.harness.controlplane import build
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import STEADY, Fleet
from tools.harness.pods.observers.observer import wait_for, wait_for_leader
from tools.harness.pods.shards.sharded import SHARDS, ShardedFleet, owned

CANDIDATES = 50
# Seconds on a busy machine.
SOON = 60.0
BIN = Path(sys.executable).parent
RULES = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
]
AGENT = "kubectl-elector"
PAGE = "docs/how-to/use-kubectl-elector.md"


def environ(config: Path) -> dict[str, str]:
    return {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(config.parent), "KUBECONFIG": str(config)}


def ctl(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """As people type it: kubectl finds the plugin in PATH."""
    return subprocess.run(
        [str(build.binary("kubectl")), "elector", *arguments],
        env=environ(config),
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )


def create_candidate(fleet: Fleet, n: int) -> None:
    """As the manifests add an elector; without a kubelet its status is written by hand."""
    pods = f"/api/v1/namespaces/{fleet.namespace}/pods"
    field = {"fieldRef": {"fieldPath": "metadata.annotations['edge-sidecars.io/lease']"}}
    elector: dict[str, Any] = {
        "name": "elector",
        "image": "example.com/elector",
        "restartPolicy": "Always",
        "env": [{"name": "ELECTOR_LEASE", "valueFrom": field}],
        "readinessProbe": {"httpGet": {"path": "/eligible", "port": 4041}},
    }
    if n == 1:
        elector["args"] = ["--priority=7"]
    name = f"pod-{n}"
    body = {
        "metadata": {"name": name, "annotations": {"edge-sidecars.io/lease": fleet.lease}},
        "spec": {
            "initContainers": [elector],
            "containers": [{"name": "main", "image": "example.com/main"}],
        },
    }
    status, answer = fleet.plane.admin.post(pods, body)
    assert status == 201, answer
    state = {
        "name": "elector",
        "ready": n != 2,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }
    patch = {"status": {"phase": "Running", "initContainerStatuses": [state]}}
    status, answer = fleet.plane.admin.patch(f"{pods}/{name}/status", patch)
    assert status == 200, answer


@pytest.fixture(scope="module")
def elected(control_plane: ControlPlane) -> Iterator[Fleet]:
    """`pod-0` leads, among fifty candidates. No test changes that."""
    with Fleet(control_plane, control_plane.create_namespace()) as fleet:
        elect(fleet, candidates=CANDIDATES)
        yield fleet


def elect(fleet: Fleet, *, candidates: int) -> None:
    fleet.create_empty_lease()
    wait_for_leader([fleet.add(timing=STEADY)], timeout=SOON)
    for n in range(candidates):
        create_candidate(fleet, n)


@pytest.fixture(scope="module")
def config(elected: Fleet) -> Path:
    return viewer(elected)


def viewer(fleet: Fleet) -> Path:
    """Of somebody who may see Leases and pods, and nothing else."""
    return fleet.plane.kubeconfig_for(fleet.namespace, "viewer", RULES)


def test_status_shows_fifty_candidates_by_two_requests(elected: Fleet, config: Path) -> None:
    fleet, leader = elected, elected.pods[0]
    fleet.plane.admin.post(
        f"/api/v1/namespaces/{fleet.namespace}/pods",
        {
            "metadata": {"name": "stranger"},
            "spec": {"containers": [{"name": "main", "image": "example.com/main"}]},
        },
    )
    since = time.time()
    done = ctl(config, "status", fleet.lease)
    assert done.returncode == 0, done.stderr
    asked = fleet.plane.count_requests(user_agent=AGENT, since=since)
    # Of a pod's list only the end is recorded, of a Lease each stage: either way one request.
    assert asked == 2

    summary, table = done.stdout.split("\n\n")
    rows = dict(line.split("   ", 1) for line in summary.splitlines())
    assert rows["LEASE"].strip() == f"{fleet.namespace}/{fleet.lease}"
    assert rows["LEADER"].strip() == "pod-0"
    assert leader.identity in rows["IDENTITY"]
    assert rows["PENDING"].strip() == "-"
    titles, *candidates = table.splitlines()
    assert titles.split() == ["CANDIDATE", "ELIGIBLE", "PRIORITY", "STATUS", "NODE", "AGE"]
    assert len(candidates) == CANDIDATES
    shown = {it.split()[0]: it.split()[1:] for it in candidates}
    assert shown["pod-0"][:3] == ["*", "yes", "0"]
    assert shown["pod-1"][:2] == ["yes", "7"]
    assert shown["pod-2"][:2] == ["no", "0"]
    assert "\033" not in done.stdout, "no colours but on a terminal"

    document = json.loads(ctl(config, "status", fleet.lease, "-o", "json").stdout)
    assert document["holder"] == leader.identity
    assert document["isElector"] is True
    assert document["provenUntil"].endswith("Z")
    assert document["pending"] == {"switchover": None, "hold": None, "problem": ""}
    assert len(document["candidates"]) == CANDIDATES
    assert [it["from"] for it in document["history"]]


def test_what_is_pending_is_shown(fleet: Fleet) -> None:
    config = viewer(fleet)
    hold = {"id": "1", "until": "2000-01-01T00:00:00Z"}
    asked = {"to": "pod-7", "id": "2", "until": "2000-01-01T00:00:00Z"}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases"
    for name, texts in (
        ("moving", {"hold": json.dumps(hold), "switchover": json.dumps(asked)}),
        ("garbled", {"hold": "7"}),
    ):
        annotations = {f"edge-sidecars.io/{key}": text for key, text in texts.items()}
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": {}}
        assert fleet.plane.admin.post(path, body)[0] == 201
    moving = ctl(config, "status", "moving")
    assert moving.returncode == 1, "no pod leads"
    assert "<none>" in moving.stdout
    assert "hold until 2000-01-01T00:00:00Z; switchover to pod-7 by 2000" in moving.stdout
    assert f"No pod of {fleet.namespace} has an elector for this Lease." in moving.stdout
    garbled = ctl(config, "status", "garbled").stdout
    assert "ignored: annotation edge-sidecars.io/hold: '7' is not a JSON object" in garbled


def test_list_and_history_read_the_leases_alone(elected: Fleet, config: Path) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{elected.namespace}/leases"
    body = {"metadata": {"name": "client-go"}, "spec": {"holderIdentity": "x"}}
    assert elected.plane.admin.post(path, body)[0] == 201
    titles, row = ctl(config, "list").stdout.splitlines()
    assert titles.split()[:3] == ["NAMESPACE", "NAME", "LEADER"]
    assert row.split()[:3] == [elected.namespace, elected.lease, "pod-0"]
    assert "client-go" in ctl(config, "list", "--all").stdout
    titles, row = ctl(config, "history", elected.lease).stdout.splitlines()
    assert row.split()[1] == "now"
    assert "pod-0" in row
    seen = json.loads(ctl(config, "history", "client-go", "-o", "json").stdout)
    assert seen["terms"][0]["holder"] == "x"
    assert seen["terms"][0]["seen"] is True
    shards = ctl(config, "shards", elected.lease)
    assert shards.returncode == 1
    assert "has no table of shards" in shards.stderr


def test_shards_shows_who_owns_what(control_plane: ControlPlane) -> None:
    with ShardedFleet(control_plane, control_plane.create_namespace()) as ring:
        ring.create_empty_lease()
        pods = ring.spread(2)
        config = viewer(ring)
        done = ctl(config, "shards", ring.lease, "-o", "json")
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert (document["shards"], document["unowned"]) == (SHARDS, [])
        shown = {it["identity"]: it["owned"] for it in document["members"]}
        assert shown == {pod.identity: owned(pod) for pod in pods}
        assert all(it["provenUntil"] for it in document["members"])
        titles, *rows = ctl(config, "shards", ring.lease).stdout.splitlines()
        assert titles.split()[:2] == ["MEMBER", "OWNED"]
        assert [row.split()[:2] for row in rows] == [
            [pod.name, str(SHARDS // 2)] for pod in sorted(pods, key=lambda it: it.identity)
        ]
        listed = ctl(config, "list").stdout.splitlines()[1:]
        assert [row.split()[1:3] for row in listed] == [[ring.lease, "(shards)"]], "no member's"


def test_watch_writes_a_line_at_each_change_and_none_at_a_renewal(
    fleet: Fleet, tmp_path: Path
) -> None:
    elect(fleet, candidates=3)
    out = tmp_path / "out"
    with out.open("w") as file:
        watching = subprocess.Popen(
            [str(BIN / "kubectl-elector"), "status", fleet.lease, "-w"],
            env=environ(viewer(fleet)),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(lambda: len(out.read_text().splitlines()) == 2, timeout=SOON, what="the present")
        version = fleet.spec()["renewTime"]
        wait_for(lambda: fleet.spec()["renewTime"] > version, timeout=SOON, what="a renewal")
        answer = fleet.pods[0].ask("/resign?cooldown=60s", method="POST", timeout=SOON)
        assert answer is not None
        assert answer.status == 200
        wait_for(lambda: "<none>" in out.read_text(), timeout=SOON, what="the release")
        pods = f"/api/v1/namespaces/{fleet.namespace}/pods"
        fleet.plane.admin.delete(f"{pods}/pod-1")
        wait_for(lambda: " 1/2 " in out.read_text(), timeout=SOON, what="the pod's end")
        before, *lines = out.read_text().splitlines()
        assert before.split() == ["TIME", "LEADER", "TERM", "ELIGIBLE", "PENDING"]
        states = [line.split()[1:] for line in lines]
        assert all(one != other for one, other in pairwise(states))
    finally:
        watching.terminate()
        watching.wait(SOON)


def test_who_lacks_a_right_reads_which(elected: Fleet) -> None:
    config = elected.plane.kubeconfig_for(elected.namespace, "elector", ELECTOR_RULES)
    for words, right in (
        (("status", elected.lease), 'resources: ["pods"], verbs: ["list"]'),
        (("list",), 'resources: ["leases"], verbs: ["list"]'),
        (("list", "-A"), "needs a ClusterRole"),
    ):
        done = ctl(config, *words)
        assert done.returncode == 1
        assert done.stderr.startswith(f"kubectl elector {words[0]}: ")
        assert done.stderr.count("\n") == 1
        assert right in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("status", "x_y"), "LEASE 'x_y' is not a Lease name"),
        (("status",), "the following arguments are required: LEASE"),
        (("statu", "x"), "did you mean status?"),
        (("list", "-n", "A"), "--namespace 'A' is not a namespace"),
        (("list", "-o", "yaml"), "invalid choice: 'yaml'"),
        (("list", "--kubeconfig", "/nonexistent"), "--kubeconfig /nonexistent"),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path: Path, words: list[str], said: str) -> None:
    done = subprocess.run(
        [str(BIN / "kubectl-elector"), *words],
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("kubectl elector")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


def test_kubectl_completes_the_words_of_the_plugin(elected: Fleet, config: Path) -> None:
    def completed(*words: str) -> list[str]:
        done = subprocess.run(
            [str(build.binary("kubectl")), "__complete", "elector", *words],
            env=environ(config),
            capture_output=True,
            text=True,
            timeout=SOON,
            check=True,
        )
        return done.stdout.splitlines()

    assert completed("sta") == ["status", ":4"]
    assert completed("status", "") == [elected.lease, ":4"]
    assert completed("history", "-n", elected.namespace, "c") == [elected.lease, ":4"]
    assert completed("status", "-o", "j") == ["json", ":4"]


def test_the_commands_of_the_page_do_what_it_says(elected: Fleet, config: Path) -> None:
    for title in ("See who leads", "Look back"):
        for line in block(PAGE, title, "sh").splitlines():
            typed = line.replace("my-controller", elected.lease).removesuffix(" -A").split()
            assert typed[:2] == ["kubectl", "elector"]
            done = ctl(config, *typed[2:])
            assert done.returncode == 0, done.stderr
            assert "pod-0" in done.stdout
