"""overlays/pool builds, names what exists, and says what the policies and the source say."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

import elector_sidecar.config
import elector_sidecar.config.config
import pool_sidecar.config.controller_config
import pool_sidecar.config.member_config
import relay_sidecar.config
import relay_sidecar.config.config
from edge_sidecars.runtime.cli.options import flag
from edge_sidecars.runtime.cli.values import address, seconds
from elector_sidecar.config.config import Config as ElectorConfig
from pool_sidecar.config.member_config import MemberConfig
from pool_sidecar.core import pool_member
from pool_sidecar.core.controller.guards import POLICIES, lack
from pool_sidecar.core.controller.node_state import (
    CUT,
    DEAD,
    DEFAULT_POOL_LABEL,
    MAY_LEAD_NODE_LABEL,
)
from relay_node.installer.plan import OFFLINE_TTL
from relay_sidecar.config.config import Config as RelayConfig
from tests.unit.manifests.built import (
    WORKLOADS,
    Json,
    containers,
    named,
    of_kind,
    overlay,
    workload,
    write_kustomization,
)
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.images import OWN_IMAGES

PARSERS = {
    "ELECTOR_": elector_sidecar.config.config.parser,
    "RELAY_": relay_sidecar.config.config.parser,
    # Before POOL_, which it begins with.
    "POOL_CONTROLLER_": pool_sidecar.config.controller_config.parser,
    "POOL_": pool_sidecar.config.member_config.parser,
}
VALIDATING = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
# What the downward API says.
POD = {
    "spec.nodeName": "n1",
    "status.hostIP": "192.0.2.1",
    "metadata.name": "pod-1",
    "metadata.namespace": "edge-pool",
}


class Node(NamedTuple):
    """What the processes on a node of a pool that may lead are told."""

    member: MemberConfig
    relay: RelayConfig
    elector: ElectorConfig


@pytest.fixture(scope="module")
def objects() -> tuple[Json, ...]:
    return overlay("pool")


@pytest.fixture(scope="module")
def node(objects: tuple[Json, ...]) -> Node:
    return Node(
        pool_sidecar.config.member_config.load([], _environ(objects, "member")),
        relay_sidecar.config.config.load([], _environ(objects, "relay")),
        elector_sidecar.config.config.load([], _environ(objects, "elector"), hostname="host"),
    )


def test_everything_of_a_namespace_is_in_edge_pool_but_events_on_nodes(
    objects: tuple[Json, ...],
) -> None:
    namespaces = {
        (it["kind"], it["metadata"]["name"]): it["metadata"].get("namespace") for it in objects
    }
    elsewhere = {kind for (kind, _), it in namespaces.items() if it == "default"}
    assert elsewhere == {"Role", "RoleBinding"}
    assert set(namespaces.values()) == {"edge-pool", "default", None}


def test_whoever_is_bound_has_a_role_and_an_account(objects: tuple[Json, ...]) -> None:
    bindings = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    assert bindings
    for binding in bindings:
        assert named(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            if subject["kind"] == "ServiceAccount":
                # Without a namespace it is the binding's own.
                own = binding["metadata"].get("namespace")
                assert subject.get("namespace", own) == "edge-pool"
                assert named(objects, "ServiceAccount", subject["name"])
            else:
                assert subject["name"] == "system:nodes"


def test_whatever_pods_refer_to_is_there(objects: tuple[Json, ...]) -> None:
    for it in of_kind(objects, *WORKLOADS):
        spec = it["spec"]["template"]["spec"]
        assert named(objects, "ServiceAccount", spec["serviceAccountName"])
        volumes = {each["name"] for each in spec.get("volumes", ())}
        for container in containers(it):
            mounts = {each["name"] for each in container.get("volumeMounts", ())}
            assert mounts <= volumes
            assert container["image"].startswith(f"{OWN_IMAGES}/")
            assert not container["image"].endswith(":latest")
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_variables_are_twins_of_flags(objects: tuple[Json, ...]) -> None:
    found = set()
    for it in of_kind(objects, *WORKLOADS):
        for variable in (each for c in containers(it) for each in c.get("env", ())):
            name = variable["name"]
            prefix = next((prefix for prefix in PARSERS if name.startswith(prefix)), "")
            if prefix:
                found.add(prefix)
                options = PARSERS[prefix]()._option_string_actions
                assert flag(name.removeprefix(prefix).lower()) in options, name
    assert found == PARSERS.keys()


def test_the_controller_finds_the_policies_of_this_overlay_in_force(
    objects: tuple[Json, ...],
) -> None:
    for name in POLICIES:
        policy, binding = (named(objects, kind, name) for kind in VALIDATING)
        assert lack(name, policy, binding) == ""


def test_every_policy_is_bound_denies_fails_closed_and_says_forbidden(
    objects: tuple[Json, ...],
) -> None:
    policies = of_kind(objects, VALIDATING[0])
    assert len(policies) == 3
    for policy in policies:
        binding = named(objects, VALIDATING[1], policy["metadata"]["name"])
        assert binding["spec"]["validationActions"] == ["Deny"]
        assert policy["spec"]["failurePolicy"] == "Fail"
        assert {it["reason"] for it in policy["spec"]["validations"]} == {"Forbidden"}


def test_the_accounts_that_policies_name_are_those_of_the_overlay(
    objects: tuple[Json, ...],
) -> None:
    text = str(of_kind(objects, VALIDATING[0]))
    for account in of_kind(objects, "ServiceAccount"):
        name = account["metadata"]["name"]
        assert f"system:serviceaccount:edge-pool:{name}'" in text


def test_no_candidate_may_take_the_controllers_lease(objects: tuple[Json, ...]) -> None:
    """Leases of pools are named pool-…"""
    (lease,) = of_kind(objects, "Lease")
    assert not lease["metadata"]["name"].startswith("pool-")


def test_the_controller_is_not_where_its_pools_are(objects: tuple[Json, ...]) -> None:
    spec = named(objects, "Deployment", "controller")["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": DEFAULT_POOL_LABEL, "operator": "DoesNotExist"}]


@pytest.mark.parametrize("name", ["pool-member", "pool-candidate"])
def test_what_is_on_nodes_stays_whatever_taint_its_node_has(
    objects: tuple[Json, ...], name: str
) -> None:
    spec = _pod(objects, name)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["hostNetwork"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    wanted: list[Json] = [{"key": DEFAULT_POOL_LABEL, "operator": "Exists"}]
    if name == "pool-candidate":
        wanted.append({"key": MAY_LEAD_NODE_LABEL, "operator": "In", "values": ["true"]})
    assert term["matchExpressions"] == wanted


def test_the_three_processes_of_a_node_find_each_other(node: Node) -> None:
    member, relay, elector = node
    assert (member.node, member.lan_addresses) == (POD["spec.nodeName"], (POD["status.hostIP"],))
    assert relay.listen is not None
    assert member.relay == relay.listen.url
    assert member.relay_status == relay.status_listen.url
    assert relay.asks_callers
    assert relay.access_offline_ttl == seconds(OFFLINE_TTL)
    assert relay.pool == member.listen.url
    assert relay.pool_connect == member.proxy_listen
    assert relay.pool_listen == member.relay_pool
    assert relay.pool_token_file == member.token_path
    assert member.token_path.parent != member.data_dir
    assert member.relay_token_file is not None
    assert str(member.node_kubeconfig) == pool_sidecar.config.member_config.NODE_KUBECONFIG
    assert elector.listen is not None
    assert member.elector == elector.listen.url
    assert elector.health_url == f"{member.listen.url}/eligible"
    assert elector.drain_url == f"{member.listen.url}/drain"
    assert elector.lease_file == member.lease_file
    assert elector.identity == POD["spec.nodeName"]
    assert elector.namespace == POD["metadata.namespace"]
    assert (elector.lease_duration, elector.renew_interval) == (20, 5)


def test_none_of_them_takes_the_port_of_another_relay_or_elector_on_the_node(node: Node) -> None:
    """Such as LC's relay, or that of the node itself."""
    member, relay, elector = node
    listeners = (member.listen, member.proxy_listen, relay.status_listen)
    ports = {member.lan_port, *(it.port for it in listeners)}
    ports |= {it.port for it in (relay.listen, relay.pool_listen, elector.listen) if it}
    assert len(ports) == 7
    usual = (relay_sidecar.config.DEFAULT_STATUS_LISTEN, elector_sidecar.config.DEFAULT_LISTEN)
    assert not ports & {10550, *(address(it).port for it in usual)}


def test_each_path_that_a_container_is_told_is_mounted_and_only_its_own_can_be_written(
    objects: tuple[Json, ...],
) -> None:
    member, candidate = _pod(objects, "pool-member"), _pod(objects, "pool-candidate")
    assert _mounts(member, "member") == {
        "/var/lib/pool-sidecar": ("/var/lib/pool-sidecar", False),
        "/etc/kubernetes": ("/etc/kubernetes", True),
        "/var/lib/kubelet/pki": ("/var/lib/kubelet/pki", True),
    }
    assert _mounts(member, "relay") == {
        "/var/lib/relay-sidecar": ("/var/lib/pool-sidecar/relay", False),
        # The token alone, and not the node's key beside it.
        "/var/lib/pool-sidecar/clients": ("/var/lib/pool-sidecar/clients", True),
    }
    assert _mounts(candidate, "elector") == {
        "/var/lib/pool-sidecar": ("/var/lib/pool-sidecar", True)
    }


def test_only_those_are_root_who_read_what_is_roots(objects: tuple[Json, ...]) -> None:
    users = {
        container["name"]: container["securityContext"]["runAsUser"]
        for it in of_kind(objects, "DaemonSet")
        for container in containers(it)
    }
    assert users == {"member": 0, "relay": 0, "elector": 65532}


def test_whatever_runs_has_probes_requests_and_a_limit_of_memory(
    objects: tuple[Json, ...],
) -> None:
    for it in of_kind(objects, *WORKLOADS):
        for container in containers(it):
            assert "livenessProbe" in container, container["name"]
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
            assert container["resources"]["limits"].keys() == {"memory"}
        assert "readinessProbe" in it["spec"]["template"]["spec"]["containers"][0]


def test_the_crd_has_the_bounds_of_the_source(objects: tuple[Json, ...]) -> None:
    (definition,) = of_kind(objects, "CustomResourceDefinition")
    assert definition["metadata"]["name"] == f"poolmembers.{pool_member.GROUP}"
    (version,) = definition["spec"]["versions"]
    assert version["name"] == pool_member.VERSION
    properties = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    report = properties["report"]["properties"]
    bounds = {
        "addresses": properties["addresses"]["maxItems"],
        "certificates": properties["certificates"]["maxItems"],
        "certificate": properties["certificates"]["items"]["maxLength"],
        "every": report["every"]["maximum"],
        "verdicts": report["verdicts"]["maxItems"] + 1,
    }
    assert bounds == {
        "addresses": pool_member.MAX_ADDRESSES,
        "certificates": pool_member.MAX_CERTIFICATES,
        "certificate": pool_member.MAX_CERTIFICATE,
        "every": pool_member.MAX_EVERY,
        "verdicts": pool_member.MAX_MEMBERS,
    }
    verdicts = report["verdicts"]["items"]["properties"]["verdict"]["enum"]
    assert set(verdicts) == set(pool_member.Verdict) - {pool_member.Verdict.ALIVE}
    assert set(properties["link"]["enum"]) == set(pool_member.Link)


def test_the_policy_of_the_controller_names_its_two_taints(objects: tuple[Json, ...]) -> None:
    text = str(named(objects, VALIDATING[0], POLICIES[1]))
    assert {DEAD, CUT} <= set(text.replace("'", " ").replace('"', " ").split())


@pytest.mark.parametrize("kind", WORKLOADS)
def test_keep_while_cut_adds_two_tolerations_and_keeps_others(tmp_path: Path, kind: str) -> None:
    other = {"key": "example.com/x", "operator": "Exists"}
    built = _kept(tmp_path, workload(kind, tolerations=[other]))
    exists = {"operator": "Exists", "effect": "NoExecute"}
    assert built == [
        other,
        {"key": "node.kubernetes.io/unreachable", **exists},
        {"key": DEAD, **exists, "tolerationSeconds": 60},
    ]


def test_other_seconds_come_by_a_patch_of_ones_own(tmp_path: Path) -> None:
    path = "/spec/template/spec/tolerations/1/tolerationSeconds"
    patch = json.dumps([{"op": "replace", "path": path, "value": 5}])
    built = _kept(
        tmp_path, workload(), patches=[{"target": {"kind": "Deployment"}, "patch": patch}]
    )
    assert built[1]["tolerationSeconds"] == 5


def _pod(objects: tuple[Json, ...], name: str) -> Json:
    pod: Json = named(objects, "DaemonSet", name)["spec"]["template"]["spec"]
    return pod


def _environ(objects: tuple[Json, ...], name: str) -> dict[str, str]:
    """Of a container of a DaemonSet, in a pod."""
    daemons = of_kind(objects, "DaemonSet")
    (found,) = [it for each in daemons for it in containers(each) if it["name"] == name]
    return {"KUBERNETES_SERVICE_HOST": "192.0.2.99"} | {
        it["name"]: POD[it["valueFrom"]["fieldRef"]["fieldPath"]]
        if "valueFrom" in it
        else it["value"]
        for it in found["env"]
    }


def _mounts(pod: Json, name: str) -> dict[str, tuple[str, bool]]:
    """Folders of the node by path, and whether they are read only."""
    volumes = {it["name"]: it["hostPath"]["path"] for it in pod["volumes"]}
    (container,) = [
        it for it in (*pod.get("initContainers", ()), *pod["containers"]) if it["name"] == name
    ]
    return {
        it["mountPath"]: (volumes[it["name"]], it.get("readOnly", False))
        for it in container["volumeMounts"]
    }


def _kept(folder: Path, body: Json, **more: object) -> list[Json]:
    written = write_kustomization(folder / "own", [body], components=["keep-while-cut"], **more)
    (found,) = kustomize(written)
    tolerations: list[Json] = found["spec"]["template"]["spec"]["tolerations"]
    return tolerations
