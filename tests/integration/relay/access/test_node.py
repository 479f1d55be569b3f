"""A relay that acts for a node: whose certificates and tokens it takes, where, and when.

The node's own certificate has the relay's rights; another's is refused.
"""

import datetime
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from relay_sidecar.access.kubelet_process import FRESH_FOR
from relay_sidecar.config.config import load
from tests.integration.relay.node.node_place import (
    GROUP,
    NODE,
    OTHER,
    NodePlace,
    allow_nodes,
    unique,
)
from tests.unit.repository.checkout import fences
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.observers.observer import wait_for
from tools.harness.relay_objects import Contents

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
# What kubelet sends for an author of a pod, who may set headers: probes, hooks.
KUBELETS = "kubelet/v1.36.3 (linux/amd64) kubernetes/0123456"
OF_PODS: list[dict[str, str]] = [
    {"User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"},
    {"User-Agent": "kube-probe/1.36"},
    {"User-Agent": "kube-lifecycle/1.36", "Accept": "*/*"},
    {"User-Agent": "Go-http-client/1.1"},
    {"User-Agent": ""},
    {"User-Agent": KUBELETS, "Connection": "close"},
    {"User-Agent": KUBELETS, "Connection": "keep-alive, Close"},
    {"User-Agent": KUBELETS, "Connection": "Upgrade", "Upgrade": "x"},
    {"User-Agent": KUBELETS, "Accept": "*/*"},
]
# Seconds; more than the relay needs to start and to notice that upstream takes its certificate.
SHORT = 9.0


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> None:
    allow_nodes(control_plane)


@pytest.fixture
def node(control_plane: ControlPlane, tmp_path: Path, rights: None) -> Iterator[NodePlace]:
    with NodePlace(control_plane, tmp_path) as it:
        yield it


def test_the_nodes_certificate_has_the_relays_rights(node: NodePlace, contents: Contents) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    kubelet = node.caller(node.pair)
    assert kubelet.get(path).names == ["a"]
    assert kubelet.ask(path, method="POST", body={"metadata": {"name": "b"}}).status == 201
    users = {event.user for event in node.plane.audit(namespace=contents.namespace, verb="create")}
    assert NODE in users
    node.cut()
    assert kubelet.get(path).names == ["a", "b"]
    assert kubelet.ask(path, method="POST", body={"metadata": {"name": "c"}}).status == 503


def test_another_nodes_certificate_is_refused_with_both_names(node: NodePlace) -> None:
    stranger = node.signer.issue_client(unique("other"), user=OTHER, group=GROUP)
    for cut in (False, True):
        if cut:
            node.cut()
        reply = node.caller(stranger).get("/api/v1/nodes")
        assert reply.status == 403
        assert NODE in reply.json()["message"]
        assert OTHER in reply.json()["message"]


def test_the_nodes_name_in_another_group_is_refused(node: NodePlace) -> None:
    imposter = node.signer.issue_client(unique("imposter"), user=NODE, group="developers")
    assert node.caller(imposter).get("/api/v1/nodes").status == 403


def test_another_signer_or_use_ends_the_handshake(node: NodePlace, tmp_path: Path) -> None:
    foreign = Authority(tmp_path, "foreign-ca").issue_client("foreign", user=NODE, group=GROUP)
    serving = node.signer.issue_server(unique("serving"), hosts=[LOOPBACK])
    for pair in (foreign, serving):
        with pytest.raises(OSError, match=r"alert|reset|EOF|closed"):
            node.caller(pair).get("/api/v1/nodes")
    assert node.caller(node.pair).get("/api/v1/nodes").status == 200


def test_who_shows_none_is_judged_by_its_token_at_both_listeners(
    node: NodePlace, contents: Contents
) -> None:
    contents.configmap("a")
    path, space = contents.path("configmaps"), contents.namespace
    tokens = {
        name: (node.plane.service_account_dir(space, name, rules).path / "token").read_text()
        for name, rules in (("reader", READ), ("nobody", []))
    }
    for pods in (False, True):
        assert node.caller(pods=pods).get(path).status == 401
        assert node.caller(token=tokens["nobody"], pods=pods).get(path).status == 403
        assert node.caller(token=tokens["reader"], pods=pods).get(path).names == ["a"]


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer  x", "bearer \t", "Basic eA==", ""]
)
def test_an_empty_token_is_nobody_at_both_listeners(node: NodePlace, header: str) -> None:
    for pods in (False, True):
        caller = node.caller(pods=pods)
        for path in ("/api/v1/nodes", "/api/v1/namespaces/default/configmaps/x"):
            assert caller.ask(path, headers={"Authorization": header}).status == 401


def test_the_pods_listener_asks_for_no_certificate(node: NodePlace) -> None:
    assert node.caller(node.pair, pods=True).get("/api/v1/nodes").status == 401


def test_a_renewed_certificate_is_used_and_taken_without_a_restart(node: NodePlace) -> None:
    renewed = node.signer.issue_client(unique("renewed"), user=NODE, group=GROUP)
    half = node.file.read_bytes()[:400]
    node.file.write_bytes(half)
    assert node.caller(node.pair).get("/api/v1/nodes").status == 200
    node.show(renewed)
    assert node.caller(renewed).get("/api/v1/nodes").status == 200
    assert node.relay.is_link_up


def test_a_certificate_that_ended_is_refused_online_and_good_while_cut(
    control_plane: ControlPlane, tmp_path: Path, rights: None, contents: Contents
) -> None:
    contents.configmap("a")
    path = contents.path("configmaps")
    with NodePlace(control_plane, tmp_path, life=SHORT) as node:
        ends_at = time.monotonic() + SHORT
        unknown = node.signer.issue_client(
            unique("unknown"), user=NODE, group=GROUP, validity=datetime.timedelta(seconds=-60)
        )
        kubelet = node.caller(node.pair)
        assert kubelet.get(path).names == ["a"]
        assert node.caller(unknown).get(path).status == 401
        time.sleep(2)  # upstream's acceptance is written down each second
        node.cut()
        time.sleep(max(ends_at - time.monotonic(), 0) + 1)
        assert kubelet.get(path).names == ["a"]
        assert node.caller(unknown).get(path).status == 503
        node.relay.kill()
        node.relay.start()
        assert kubelet.get(path).names == ["a"]
        assert node.caller(unknown).get(path).status == 503
        node.link.heal()
        wait_for(
            lambda: kubelet.get(path).status == 401, timeout=20, what="a refusal after the heal"
        )


@pytest.mark.skipif(os.getuid() != 0, reason="kubelet is root's")
def test_kubelet_without_a_certificate_is_known_by_its_process_while_cut(
    control_plane: ControlPlane, tmp_path: Path, rights: None, contents: Contents
) -> None:
    """It shows none that has ended. Here this process is kubelet's, as far as systemd says so."""
    contents.configmap("a")
    path = contents.path("configmaps")
    told = tmp_path / "MainPID"
    told.write_text(str(os.getpid()))
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\n[ "$4" = kubelet.service ] && cat {told}\n')
    systemctl.chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    flags = ["--kubelet-unit=kubelet.service"]
    with NodePlace(control_plane, tmp_path, flags=flags, environ=environ) as node:
        assert node.caller(node.pair).get(path).names == ["a"]
        assert node.caller().get(path).status == 401
        node.cut()
        assert node.caller().get(path).names == ["a"]
        for headers in OF_PODS:
            reply = node.caller().ask(path, headers=headers)
            assert (headers, reply.status) == (headers, 401)
        assert node.caller(pods=True).get(path).status == 401
        assert node.caller(token="of-somebody").get(path).status == 503
        told.write_text(str(os.getppid()))
        time.sleep(FRESH_FOR)
        assert node.caller().get(path).status == 401
        told.write_text(str(os.getpid()))
        node.link.heal()
        node.relay.wait_link(up=True)
        assert node.caller().get(path).status == 401


def test_what_is_refused_is_counted_and_told_once(node: NodePlace, contents: Contents) -> None:
    space = contents.namespace
    kubelet = node.caller(node.pair)
    assert kubelet.get(contents.path("configmaps", "missing")).status == 404
    node.cut()
    for number in range(3):
        body = {"metadata": {"name": f"e-{number}"}}
        events = f"/api/v1/namespaces/{space}/events"
        assert kubelet.ask(events, method="POST", body=body).status == 503
    assert node.caller().get("/api/v1/nodes").status == 401
    counted = [
        line for line in node.relay.metrics().splitlines() if "requests_refused_total{" in line
    ]
    metric = "relay_requests_refused_total"
    assert sorted(counted) == [
        metric + '{verb="create",resource="events",reason="ServiceUnavailable"} 3',
        metric + '{verb="list",resource="nodes",reason="Unauthorized"} 1',
    ]
    text = node.relay.log_text(all_lives=True)
    told = [line for line in text.splitlines() if "request refused" in line]
    assert len(told) == 2
    assert all(part in told[0] for part in ("create", "events", space, "caller", "503"))


def test_the_manuals_command_is_a_relay_of_a_node(node: NodePlace) -> None:
    [text] = [
        text for title, _, text in fences("docs/reference/relay-access.md") if title == "On a node"
    ]
    words = shlex.split(text.replace("\\\n", " "))
    assert words[0] == "relay-sidecar"
    config = load(words[1:], {})
    assert config.asks_callers
    assert config.client_ca_file is not None
    # What the relay of these tests, which works, is told as well.
    assert {word.partition("=")[0] for word in words[1:]} <= {
        flag.partition("=")[0] for flag in node.relay.flags
    }
