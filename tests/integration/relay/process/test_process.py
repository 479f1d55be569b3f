"""The relay as an operator meets it: the command line, its sub-commands, how it starts and ends."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.collector import Collector
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.controlplane.fixtures import require_program
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.pods.wire.raw_server import RawServer, hold
from tools.harness.processes.command import run_program
from tools.harness.relay_objects import Contents

PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
# Seconds; a program that ends at once, on a busy machine.
SOON = 60


def run(
    *arguments: str, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return run_program(
        "relay-sidecar", *arguments, environ={"PATH": "/usr/bin:/bin", **(environ or {})}, cwd=cwd
    )


@pytest.fixture
def relay(control_plane: ControlPlane) -> Iterator[RelayProcess]:
    with RelayProcess([f"--kubeconfig={control_plane.admin_kubeconfig()}"]) as it:
        yield it
        assert "Traceback" not in it.log_text()


# ── bad input ──


@pytest.mark.long
@pytest.mark.slow
def test_a_data_dir_that_another_relay_uses_is_named(relay: RelayProcess) -> None:
    flags = ["--server=http://127.0.0.1:1", "--listen=127.0.0.1:0", "--status-listen=127.0.0.1:0"]
    done = run(*flags, f"--data-dir={relay.data_dir}")
    assert done.returncode == 2
    assert str(relay.data_dir) in done.stderr
    assert done.stderr.count("\n") == 1


# ── the end ──


def test_sigterm_ends_open_watches_and_the_process(relay: RelayProcess, contents: Contents) -> None:
    path = f"/api/v1/namespaces/{contents.namespace}/configmaps"
    with Caller(relay.url).watch(path, {"resourceVersion": "0"}) as watching:
        assert watching.status == HTTPStatus.OK
        assert relay.terminate() == 0
        watching.wait_ended()
    assert "terminating" in relay.log_text()


def test_a_second_signal_ends_it_at_once(relay: RelayProcess, contents: Contents) -> None:
    path = f"/api/v1/namespaces/{contents.namespace}/configmaps"
    with Caller(relay.url).watch(path, {"resourceVersion": "0"}):
        os.kill(relay.pid, signal.SIGINT)
        wait_for(lambda: "terminating" in relay.log_text(), timeout=5, what="the first signal")
        os.kill(relay.pid, signal.SIGINT)
        assert relay.wait() == 1


# ── sub-commands ──


def test_the_status_command_tells_link_and_streams(relay: RelayProcess, contents: Contents) -> None:
    path = f"/api/v1/namespaces/{contents.namespace}/configmaps"
    url = ["--url", f"http://{LOOPBACK}:{relay.status_port}"]
    with Caller(relay.url).watch(path, {"resourceVersion": "0"}):
        wait_for(lambda: relay.status()["watchers"] == 1, timeout=20, what="the watcher")
        wait_for(lambda: "live" in run("status", *url).stdout, timeout=20, what="the stream")
        done = run("status", *url)
        assert done.returncode == 0
        [row] = [line.split() for line in done.stdout.splitlines() if "configmaps" in line]
        assert row[:4] == ["configmaps.v1", contents.namespace, "-", "live"]
        assert row[-1] == "1"
        told = json.loads(run("status", *url, "-o", "json").stdout)
    assert told["link"]["isUp"] is True
    environ = {"RELAY_STATUS_LISTEN": f"{LOOPBACK}:{relay.status_port}"}
    assert run("status", environ=environ).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--url=http://127.0.0.1:1"], 1, "no answer from the relay at http://127.0.0.1:1"),
        (["--url=https://127.0.0.1:1"], 2, "--url 'https://127.0.0.1:1'"),
        (["--ulr=x"], 2, "did you mean --url?"),
    ],
)
def test_without_a_relay_the_status_command_says_so(
    arguments: list[str], status: int, told: str
) -> None:
    done = run("status", *arguments)
    assert done.returncode == status
    assert done.stdout == ""
    assert told in done.stderr
    assert done.stderr.count("\n") == 1


def test_kubectl_comes_here_with_the_kubeconfig_and_its_token_over_tls(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    kubectl = require_program("kubectl")
    files = Authority(tmp_path, "ca").issue_server("relay", hosts=[LOOPBACK])
    token = tmp_path / "token"
    token.write_text("secret")
    flags = [
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--local-token-file={token}",
    ]
    config = tmp_path / "kubeconfig"
    with RelayProcess([f"--kubeconfig={control_plane.admin_kubeconfig()}", *flags]) as relay:
        done = run(
            "kubeconfig",
            f"--listen={LOOPBACK}:{relay.port}",
            f"--tls-cert-file={files.certificate}",
            f"--certificate-authority={tmp_path / 'ca.crt'}",
            f"--local-token-file={token}",
            f"--output={config}",
        )
        assert done.returncode == 0, done.stderr

        def get() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [kubectl, "get", "namespaces", "default", "-o", "name"],
                capture_output=True,
                text=True,
                timeout=SOON,
                check=False,
                env={"KUBECONFIG": str(config), "HOME": str(tmp_path)},
            )

        assert get().stdout == "namespace/default\n"
        token.write_text("another")
        assert get().stdout == "namespace/default\n", "both have read it again"
        (tmp_path / "old").write_text("secret")
        config.write_text(config.read_text().replace(str(token), str(tmp_path / "old")))
        assert "Unauthorized" in get().stderr


# ── access ──


def test_in_own_access_the_callers_token_is_not_passed_on(relay: RelayProcess) -> None:
    """The API server would refuse it; the relay's own rights are what counts."""
    caller = Caller(relay.url, headers={"Authorization": "Bearer of-nobody"})
    assert caller.get("/api/v1/namespaces/default").status == HTTPStatus.OK
    assert caller.get("/api/v1/namespaces").status == HTTPStatus.OK


class Shared:
    """A relay that may do anything, and whose callers may what their tokens may."""

    def __init__(self, plane: ControlPlane, namespace: str, link: FaultProxy) -> None:
        self.plane = plane
        self.namespace = namespace
        self.link = link
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        for name, rules in (("reader", PODS), ("stranger", [])):
            plane.service_account_dir(namespace, name, rules)
        kubeconfig = plane.admin_kubeconfig(server=link.url)
        flags = ["--access=caller", "--access-ttl=1s", "--probe-interval=300ms"]
        self.relay = RelayProcess([f"--kubeconfig={kubeconfig}", *flags])

    def caller(self, account: str) -> Caller:
        token = self.plane.new_token(self.namespace, account)
        return Caller(self.relay.url, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def shared(
    control_plane: ControlPlane, namespace: str, fault_proxy: FaultProxy
) -> Iterator[Shared]:
    it = Shared(control_plane, namespace, fault_proxy)
    with it.relay:
        it.relay.wait_link(up=True)
        yield it
        assert "Traceback" not in it.relay.log_text(all_lives=True)


def test_r7_nobody_sees_what_others_made_the_relay_keep(shared: Shared) -> None:
    reader, stranger = shared.caller("reader"), shared.caller("stranger")
    with reader.watch(shared.pods, {"resourceVersion": "0"}) as watching:
        assert watching.status == HTTPStatus.OK
        for path in (shared.pods, f"{shared.pods}/some"):
            for query in ({}, {"resourceVersion": "0"}):
                answer = stranger.get(path, query)
                assert answer.status == HTTPStatus.FORBIDDEN
                assert f"{shared.namespace}:stranger" in answer.json()["message"]
        for query in ({}, {"resourceVersion": "1"}, {"fieldSelector": "spec.unknown=x"}):
            watch = stranger.get(shared.pods, {"watch": "1", **query})
            assert watch.status == HTTPStatus.FORBIDDEN
        assert stranger.get("/api/v1/configmaps", {"watch": "1"}).status == HTTPStatus.FORBIDDEN
        [stream] = shared.relay.status()["streams"]
        assert stream["namespace"] == shared.namespace, "nothing is opened for who may not read it"
        assert reader.get(shared.pods, {"resourceVersion": "0"}).status == HTTPStatus.OK


def test_r7_what_is_passed_on_is_done_as_the_caller(shared: Shared) -> None:
    """The relay is administrator here, by a certificate, which must not show upstream."""
    for account in ("reader", "stranger"):
        caller = shared.caller(account)
        told = caller.post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        ).expect(HTTPStatus.CREATED)
        user = told["status"]["userInfo"]["username"]
        assert user == f"system:serviceaccount:{shared.namespace}:{account}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        path = f"/api/v1/namespaces/{shared.namespace}/configmaps"
        assert caller.post(path, body).status == HTTPStatus.FORBIDDEN


def test_r7_an_open_watch_ends_when_its_right_ends(shared: Shared) -> None:
    with shared.caller("reader").watch(shared.pods, {"resourceVersion": "0"}) as watching:
        assert watching.status == HTTPStatus.OK
        time.sleep(3)
        assert watching.is_open, "the permission is renewed while it stands"
        shared.plane.service_account_dir(shared.namespace, "reader", [])
        watching.wait_ended()
        [last] = watching.events("ERROR")
        assert last.object["code"] == HTTPStatus.FORBIDDEN


def test_r7_an_open_watch_outlives_a_cut_and_a_restart_finds_the_decision(shared: Shared) -> None:
    reader = shared.caller("reader")
    with reader.watch(shared.pods, {"resourceVersion": "0"}) as watching:
        assert watching.status == HTTPStatus.OK
        shared.link.refuse()
        shared.relay.wait_link(up=False)
        time.sleep(3)
        assert watching.is_open
    shared.relay.kill()
    shared.relay.start()
    again = reader.get(shared.pods, {"watch": "1", "resourceVersion": "0", "timeoutSeconds": "1"})
    assert again.status == HTTPStatus.OK
    stranger = shared.caller("stranger").get(shared.pods)
    assert stranger.status == HTTPStatus.SERVICE_UNAVAILABLE


# ── telemetry ──


def test_metrics_and_outages_go_to_a_collector(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    with Collector() as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        server = f"--server=https://127.0.0.1:{fault_proxy.port}"
        flags = [f"--kubeconfig={control_plane.admin_kubeconfig()}", server]
        with RelayProcess(flags, environ=environ) as relay:
            relay.wait_link(up=True)
            fault_proxy.refuse()
            relay.wait_link(up=False)
            fault_proxy.heal()
            relay.wait_link(up=True)
            [outage] = relay.status()["link"]["outages"]
            assert relay.terminate() == 0
    [span] = collector.span("upstream out of reach")
    began = datetime.fromisoformat(outage["began"]).timestamp()
    assert span.start_time_unix_nano / 1e9 == pytest.approx(began, abs=0.01)
    seconds = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    assert seconds == pytest.approx(outage["seconds"], abs=0.01)
    assert collector.metric("relay_link_up") == 1
    assert collector.metric("relay_journal_failed") == 0


def test_answers_are_timed_and_watches_are_not(relay: RelayProcess) -> None:
    caller, path = Caller(relay.url), "/api/v1/namespaces/default/configmaps"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "timed-"}}
    made = caller.post(path, body).expect(HTTPStatus.CREATED)["metadata"]["name"]
    for asked in (path, f"{path}/{made}", f"{path}?watch=true&timeoutSeconds=1", "/version"):
        assert caller.get(asked).status == HTTPStatus.OK
    caller.delete(f"{path}/{made}").expect()
    lines = relay.metrics().splitlines()
    counts = re.compile(r'relay_request_duration_seconds_count{verb="(.+)",source="\w+"} (\d+)')
    found = [counts.fullmatch(line) for line in lines]
    assert {(it[1], it[2]) for it in found if it} == {
        *(("create", "1"), ("list", "1"), ("get", "1"), ("delete", "1"))
    }


def test_an_outage_outlasts_the_process_in_which_it_began(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    server = f"--server=https://127.0.0.1:{fault_proxy.port}"
    flags = [f"--kubeconfig={control_plane.admin_kubeconfig()}", server]
    with RelayProcess(flags) as relay:
        status = Caller(f"http://127.0.0.1:{relay.status_port}")
        relay.wait_link(up=True)
        assert status.get("/history").json()["outages"] == []
        fault_proxy.refuse()
        relay.wait_link(up=False)
        present = status.get("/history").json()["present"]
        assert present["why"] == relay.status()["link"]["cause"]
        # Written when the process is told to end, at the latest.
        assert relay.terminate() == 0
        ended_at = time.time()
        relay.start()
        relay.wait_link(up=False)
        fault_proxy.heal()
        relay.wait_link(up=True)
        for _ in range(2):
            found = status.get("/history").json()
            [outage] = found["outages"]
            began = datetime.fromisoformat(outage["began"]).timestamp()
            assert began == pytest.approx(
                datetime.fromisoformat(present["began"]).timestamp(), abs=0.5
            )
            assert began + outage["seconds"] > ended_at
            assert outage["why"] == present["why"]
            assert found["present"] is None
            assert relay.terminate() == 0
            relay.start()
            relay.wait_link(up=True)


def test_a_collector_that_does_not_answer_does_not_delay_the_end(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    with RawServer(hold) as silent:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": silent.url, "OTEL_METRIC_EXPORT_INTERVAL": "500"}
        server = f"--server=https://127.0.0.1:{fault_proxy.port}"
        flags = [f"--kubeconfig={control_plane.admin_kubeconfig()}", server]
        with RelayProcess(flags, environ=environ) as relay:
            relay.wait_link(up=True)
            fault_proxy.refuse()
            relay.wait_link(up=False)
            fault_proxy.heal()
            relay.wait_link(up=True)
            began = time.monotonic()
            assert relay.terminate() == 0
            # The exporters by themselves try for 10 s each.
            assert time.monotonic() - began < 8
