"""overlays/pool builds, names what exists, and says what the policies and the source say."""

import json
from pathlib import Path

import pytest

import elector_sidecar.config.config
import pool_sidecar.config.controller_config
import relay_sidecar.config.config
from pool_sidecar.core import pool_member
from pool_sidecar.core.controller.guards import POLICIES, lack
from pool_sidecar.core.controller.node_state import CUT, DEAD, DEFAULT_POOL_LABEL
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
from tools.harness.controlplane.kustomize import kustomize

PARSERS = {
    "ELECTOR_": elector_sidecar.config.config.parser,
    "RELAY_": relay_sidecar.config.config.parser,
    "POOL_CONTROLLER_": pool_sidecar.config.controller_config.parser,
}
VALIDATING = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


@pytest.fixture(scope="module")
def objects() -> tuple[Json, ...]:
    return overlay("pool")


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
            assert container["image"].startswith("edge-sidecars/")
            assert not container["image"].endswith(":latest")
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("prefix", PARSERS)
def test_variables_are_twins_of_flags(objects: tuple[Json, ...], prefix: str) -> None:
    options = PARSERS[prefix]()._option_string_actions
    names = {
        variable["name"]
        for it in of_kind(objects, *WORKLOADS)
        for container in containers(it)
        for variable in container.get("env", ())
        if variable["name"].startswith(prefix)
    }
    assert names
    for name in names:
        assert f"--{name.removeprefix(prefix).lower().replace('_', '-')}" in options, name


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


def test_a_member_stays_whatever_taint_its_node_has(objects: tuple[Json, ...]) -> None:
    spec = named(objects, "DaemonSet", "pool-member")["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = affinity["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": DEFAULT_POOL_LABEL, "operator": "Exists"}]


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


def _kept(folder: Path, body: Json, **more: object) -> list[Json]:
    written = write_kustomization(folder / "own", [body], components=["keep-while-cut"], **more)
    (found,) = kustomize(written)
    tolerations: list[Json] = found["spec"]["template"]["spec"]["tolerations"]
    return tolerations
