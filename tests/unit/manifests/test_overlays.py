"""Each overlay builds, and whatever it names exists: in it, in the images, in the programs."""

import os
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
import yaml

import elector_sidecar.config.config
import gm.config.config
import lc.config.config
import relay_sidecar.config.config
from edge_sidecars.runtime.version import VERSION
from gm.hub.credentials import AUDIENCE
from tests.unit.manifests.built import (
    MANIFESTS,
    OVERLAYS,
    WORKLOADS,
    Json,
    containers,
    gm_rules,
    named,
    of_kind,
    overlay,
)
from tests.unit.repository.checkout import ROOT, block
from tools.harness.controlplane.clients.kustomize import kustomize
from tools.images import OWN_IMAGES

PARSERS: dict[str, Any] = {
    "ELECTOR": elector_sidecar.config.config.parser,
    "RELAY": relay_sidecar.config.config.parser,
    "GM": gm.config.config.parser,
    "LC": lc.config.config.parser,
}


def _selects(selector: Json, workload: Json) -> bool:
    return bool(selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items())


@pytest.mark.parametrize("name", OVERLAYS)
def test_whatever_pods_refer_to_is_in_the_overlay(name: str) -> None:
    objects = overlay(name)
    config = named(objects, "ConfigMap", "ha-mode")["data"]
    accounts = {it["metadata"]["name"] for it in of_kind(objects, "ServiceAccount")}
    for workload in of_kind(objects, *WORKLOADS):
        spec = workload["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] in accounts
        volumes = {it["name"] for it in spec.get("volumes", ())}
        for container in containers(workload):
            assert {it["name"] for it in container.get("volumeMounts", ())} <= volumes
            for variable in container.get("env", ()):
                source = variable.get("valueFrom", {}).get("configMapKeyRef")
                if source and not source.get("optional"):
                    assert source["name"] == "ha-mode"
                    assert source["key"] in config
            ports = {it["name"] for it in container.get("ports", ())}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                asked = container.get(probe, {}).get("httpGet", {"port": 0})["port"]
                assert isinstance(asked, int) or asked in ports


@pytest.mark.parametrize("name", OVERLAYS)
def test_whatever_selects_pods_selects_some(name: str) -> None:
    objects = overlay(name)
    (deployment,) = of_kind(objects, "Deployment")
    ports = {port["name"] for it in containers(deployment) for port in it.get("ports", ())}
    for service in of_kind(objects, "Service"):
        selector = dict(service["spec"]["selector"])
        # The elector's doing, at run time.
        selector.pop("edge-sidecars.io/role", None)
        assert _selects(selector, deployment)
        assert {it["targetPort"] for it in service["spec"]["ports"]} <= ports
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert _selects(budget["spec"]["selector"]["matchLabels"], deployment)
    for policy in of_kind(objects, "NetworkPolicy"):
        assert _selects(policy["spec"]["podSelector"]["matchLabels"], deployment)


@pytest.mark.parametrize("name", OVERLAYS)
def test_whoever_is_bound_has_a_role_and_an_account(name: str) -> None:
    objects = overlay(name)
    bindings = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    assert bindings
    for binding in bindings:
        assert named(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            assert subject["namespace"] == "sedna"
            assert named(objects, "ServiceAccount", subject["name"])


@pytest.mark.parametrize("name", OVERLAYS)
def test_images_are_ours_in_the_version_that_is_checked_out(name: str) -> None:
    images = {it["image"] for each in of_kind(overlay(name), *WORKLOADS) for it in containers(each)}
    components = {it.removeprefix(f"{OWN_IMAGES}/").rpartition(":")[0] for it in images}
    assert {"elector-sidecar", "relay-sidecar", "gm", "lc"} == components
    assert {it.rpartition(":")[2] for it in images} == {VERSION}
    for component in components:
        assert component in (ROOT / "tools" / "images" / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", OVERLAYS)
def test_variables_are_twins_of_flags(name: str) -> None:
    found = 0
    for workload in of_kind(overlay(name), *WORKLOADS):
        for container in containers(workload):
            for variable in container.get("env", ()):
                prefix, _, flag = variable["name"].partition("_")
                # Sedna's own name.
                if prefix not in PARSERS or variable["name"] == "GM_ADDRESS":
                    continue
                options = PARSERS[prefix]()._option_string_actions
                assert f"--{flag.lower().replace('_', '-')}" in options, variable
                found += 1
    assert found >= 8


@pytest.mark.parametrize("name", OVERLAYS)
def test_no_container_may_more_than_it_needs(name: str) -> None:
    for workload in of_kind(overlay(name), *WORKLOADS):
        for container in containers(workload):
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["seccompProfile"]["type"] == "RuntimeDefault"
            # LC works on its node's files.
            assert context.get("runAsNonRoot") or workload["metadata"]["name"] == "lc"
            assert container["resources"]["limits"].keys() == {"memory"}


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_sidecar_asks_for_its_disk_and_sets_no_limit_that_the_main_would_share(name: str) -> None:
    """kubelet sums the limits of the containers that have one, and holds the whole pod to that
    (pkg/kubelet/eviction, podEphemeralStorageLimitEviction)."""
    for workload in of_kind(overlay(name), *WORKLOADS):
        for sidecar in containers(workload):
            if sidecar["name"] in ("elector", "relay"):
                assert "ephemeral-storage" in sidecar["resources"]["requests"]
            assert "ephemeral-storage" not in sidecar["resources"]["limits"]
        for volume in workload["spec"]["template"]["spec"].get("volumes", ()):
            if volume["name"] == "relay-data":
                assert "sizeLimit" not in volume.get("emptyDir", {})


def test_gms_sidecars_end_in_an_order_that_releases_the_lease_at_once() -> None:
    (deployment,) = of_kind(overlay("active-active"), "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    # kubelet ends native sidecars in the reverse order of their list.
    assert [it["name"] for it in spec["initContainers"]] == ["relay", "elector"]
    assert all(it["restartPolicy"] == "Always" for it in spec["initContainers"])


@pytest.mark.parametrize("name", OVERLAYS)
def test_gm_has_shards_where_its_elector_has_some(name: str) -> None:
    objects = overlay(name)
    (deployment,) = of_kind(objects, "Deployment")
    told = {
        variable["name"]: variable.get("value")
        for container in containers(deployment)
        for variable in container["env"]
    }
    has_shards = name.endswith("-shards")
    assert ("ELECTOR_SHARDS" in told) == has_shards
    assert told.get("GM_LEADERSHIP", "leader") == ("shards" if has_shards else "leader")
    # By which election-policy finds its account, and members find each other.
    for kind, called in (("RoleBinding", "gm-elector"), ("Lease", "gm")):
        labels = named(objects, kind, called)["metadata"]["labels"]
        assert labels.get("edge-sidecars.io/election") == ("gm" if has_shards else None)


def test_only_lcs_in_mode_relay_have_rights_and_a_token() -> None:
    for name in OVERLAYS:
        (daemons,) = of_kind(overlay(name), "DaemonSet")
        bound = {
            subject["name"]
            for it in of_kind(overlay(name), "RoleBinding", "ClusterRoleBinding")
            for subject in it["subjects"]
        }
        has_token = daemons["spec"]["template"]["spec"]["automountServiceAccountToken"]
        assert has_token == ("lc" in bound) == (name == "relay")


def test_gms_stream_takes_only_lcs_with_a_token_of_their_account_for_gm() -> None:
    for name in OVERLAYS:
        (gms,), (lcs,) = of_kind(overlay(name), "Deployment"), of_kind(overlay(name), "DaemonSet")
        gm_env, lc_env = _environ(gms, "gm"), _environ(lcs, "lc")
        assert "GM_TRUST_ANY_LC" not in gm_env
        if name == "relay":
            continue
        assert gm_env["GM_REVIEW_TOKENS"] == "true"
        assert {"GM_TLS_CERT", "GM_TLS_KEY", "POD_NAMESPACE"} <= gm_env.keys()
        assert lcs["spec"]["template"]["spec"]["serviceAccountName"] == "lc"
        volumes = lcs["spec"]["template"]["spec"]["volumes"]
        (token,) = (each["projected"] for each in volumes if "projected" in each)
        (source,) = token["sources"]
        assert source["serviceAccountToken"]["audience"] == AUDIENCE
        mounts = {
            each["mountPath"] for it in containers(lcs) for each in it.get("volumeMounts", ())
        }
        assert {os.path.dirname(lc_env[it]) for it in ("LC_SERVER_CA", "LC_GM_TOKEN_FILE")} < mounts


def test_the_certificate_of_the_manual_is_for_where_lcs_find_gm(tmp_path: Path) -> None:
    text = block("docs/how-to/deploy-gm-and-lc.md", "The certificate of GM", "sh")
    making, *storing = text.strip().split("kubectl ")
    run(["bash", "-ec", making], cwd=tmp_path, check=True, capture_output=True)
    shown = run(
        ["openssl", "x509", "-in", "gm.crt", "-noout", "-ext", "subjectAltName"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    addresses = {
        address.partition(":")[0]
        for name in OVERLAYS
        if (address := named(overlay(name), "ConfigMap", "ha-mode")["data"].get("gm-address"))
    }
    assert addresses
    assert all(address in shown for address in addresses)
    assert [it.split()[2:5] for it in storing] == [
        ["create", "secret", "tls"],
        ["create", "configmap", "gm-ca"],
    ]


def _environ(workload: Json, container: str) -> Json:
    (found,) = (it for it in containers(workload) if it["name"] == container)
    return {it["name"]: it.get("value") for it in found["env"]}


def test_gm_has_the_same_rights_in_one_namespace_or_all_and_no_more_in_the_cluster() -> None:
    everywhere = kustomize(MANIFESTS / "rbac/gm-all-namespaces")
    assert named(everywhere, "ClusterRole", "sedna-gm")["rules"] == list(gm_rules())
    for name in OVERLAYS:
        bound = {
            it["roleRef"]["name"]
            for it in of_kind(overlay(name), "ClusterRoleBinding")
            if it["subjects"][0]["name"] == "gm"
        }
        reviews = set() if name == "relay" else {"sedna-gm-token-reviews"}
        assert bound == {"sedna-gm-nodes"} | reviews
        (deployment,) = of_kind(overlay(name), "Deployment")
        assert _gm_namespaces(deployment) == "default"


def test_gm_looks_after_all_namespaces_with_the_component_for_it(tmp_path: Path) -> None:
    relative = os.path.relpath(MANIFESTS, tmp_path)
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump(
            {
                "resources": [f"{relative}/overlays/active-active"],
                "components": [f"{relative}/components/gm-all-namespaces"],
            }
        )
    )
    objects = kustomize(tmp_path)
    assert _gm_namespaces(of_kind(objects, "Deployment")[0]) == ""
    (binding,) = [
        it for it in of_kind(objects, "ClusterRoleBinding") if it["roleRef"]["name"] == "sedna-gm"
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gm", "namespace": "sedna"}]


def _gm_namespaces(deployment: Json) -> str:
    (gm_,) = [it for it in containers(deployment) if it["name"] == "gm"]
    (found,) = [it["value"] for it in gm_["env"] if it["name"] == "GM_NAMESPACE"]
    return str(found or "")


def test_the_electors_role_is_that_of_the_manual() -> None:
    told = list(
        yaml.safe_load_all(
            block("docs/how-to/add-the-elector.md", "Add the elector to a pod", "yaml")
        )
    )
    (role,) = of_kind(told, "Role")
    text = (MANIFESTS / "rbac/elector/role.yaml").read_text(encoding="utf-8")
    (ours,) = of_kind(list(yaml.safe_load_all(text)), "Role")
    role["rules"][0]["resourceNames"] = ["workload"]
    assert ours["rules"] == role["rules"]


def test_each_rule_has_its_reason_above_it() -> None:
    for path in sorted((MANIFESTS / "rbac").rglob("role.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        rules = [number for number, line in enumerate(lines) if line.startswith("  - apiGroups:")]
        assert rules, path
        for number in rules:
            above = lines[number - 1]
            assert above.startswith("  # "), f"{path}: {lines[number]}"


def test_renewals_are_told_apart_from_all_else() -> None:
    schema, level = (
        named(kustomize(MANIFESTS / "flow-control"), kind, "edge-sidecars-election")
        for kind in ("FlowSchema", "PriorityLevelConfiguration")
    )
    assert schema["spec"]["priorityLevelConfiguration"]["name"] == level["metadata"]["name"]
    assert schema["spec"]["rules"][0]["resourceRules"][0]["resources"] == ["leases"]
