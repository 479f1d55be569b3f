"""The command line as an operator meets it: exit codes, and one line that names the remedy."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES
from tools.harness.pods.fleet import LEASE, Fleet
from tools.harness.pods.main import MainServer
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.http_client import answered
from tools.harness.processes.command import run


def refused(*arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """The one line with which bad input ends."""
    done = run(*arguments, environ=environ)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("elector-sidecar: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# ── bad input ──


@pytest.mark.parametrize("flag", ["--listen", "--probe-listen", "--http"])
def test_a_port_in_use_is_named(control_plane: ControlPlane, namespace: str, flag: str) -> None:
    account = control_plane.service_account_dir(namespace, "elector", ELECTOR_RULES)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listen = [] if flag == "--listen" else ["--listen", "127.0.0.1:0"]
        line = refused(
            *("--lease", "x", "--namespace", namespace, "--server", control_plane.server),
            *("--service-account-dir", str(account.path), *listen, flag, address),
        )
    assert f"cannot listen on {address}" in line
    assert "address already in use" in line.lower()
    assert "choose another address" in line


# ── what is only a warning ──


def test_a_health_url_that_never_answers_is_a_warning_and_a_reason(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    with MainServer(health=0) as main:
        pod = fleet.add("--health-url", f"{main.url}/healthz")
        wait_for(lambda: "hung" in pod.leader()["reason"], timeout=15, what="a time-out")
        assert pod.readyz() == 503
        warnings = [it for it in pod.log_lines() if it["level"] == "warning" and "health" in it]
        assert len(warnings) == 1, "once, not at each check"
        assert warnings[0]["url"] == f"{main.url}/healthz"
        assert warnings[0]["health"] == "hung"


@pytest.mark.parametrize(
    ("allowed", "verb"),
    [
        ([], "get"),
        (["get"], "watch"),
        (["get", "watch"], "create"),
        (["get", "watch", "create"], "update"),
    ],
)
def test_a_lease_that_rbac_forbids_is_one_warning_with_the_missing_rule(
    fleet: Fleet, allowed: list[str], verb: str
) -> None:
    if verb != "create":
        fleet.create_empty_lease()
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": allowed}
    account = fleet.plane.service_account_dir(
        fleet.namespace, f"may-not-{verb}", [rule] if allowed else []
    )
    pod = fleet.add("--on-missing", "take", credentials=account)

    def told() -> list[str]:
        lines = [line for line in pod.log_lines() if line["level"] == "warning"]
        return [line["missing_rule"] for line in lines if "missing_rule" in line]

    wait_for(lambda: told() != [], timeout=15, what=f"a warning about {verb}")
    # It is tried again meanwhile, and told once.
    time.sleep(3)
    [rule_told] = told()
    place, _, rules = rule_told.partition(": ")
    assert place == f"Role in namespace {fleet.namespace}"
    # All of it, not what was refused first; RBAC cannot limit `create` to a name.
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert yaml.safe_load(rules) == [
        {**leases, "resourceNames": [LEASE], "verbs": ["get", "watch", "update"]},
        {**leases, "verbs": ["create"]},
    ]
    assert answered(pod, "/livez").status == 200


def test_the_tolerances_are_told_once_at_start(fleet: Fleet) -> None:
    pod = fleet.add()
    [line] = [line for line in pod.log_lines() if line["message"] == "contending"]
    for key in (
        *("api_outage_ridden_out", "takeover_after_crash", "takeover_after_release"),
        *("clock_rate_ratio", "identity", "lease", "listen"),
    ):
        assert line[key], key


# ── the first and the second SIGTERM ──


# ── what a pod pays for ──


def test_a_leading_process_has_imported_nothing_that_it_does_not_use(
    fleet: Fleet, tmp_path: Path
) -> None:
    fleet.create_empty_lease()
    account = fleet.plane.service_account_dir(fleet.namespace, "elector", ELECTOR_RULES)
    log = tmp_path / "imports"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [
                *(sys.executable, "-X", "importtime", "-m", "elector_sidecar"),
                *("--lease", fleet.lease, "--namespace", fleet.namespace),
                *("--server", fleet.plane.server, "--service-account-dir", str(account.path)),
                *("--listen", "127.0.0.1:0", "--release-on-term"),
            ],
            stderr=stderr,
        )
        try:
            wait_for(lambda: "became leader" in log.read_text(), timeout=30, what="it leads")
        finally:
            process.terminate()
            assert process.wait(30) == 0
    modules = set(re.findall(r"^import time:.*\|\s+(\S+)$", log.read_text(), re.MULTILINE))
    assert "elector_sidecar.elector" in modules
    assert "aiohttp" in modules
    assert not [it for it in modules if it.startswith("elector_sidecar.shards")]
    for costly in ("kubernetes", "opentelemetry", "uvloop", "yaml", "requests", "difflib"):
        assert costly not in modules
