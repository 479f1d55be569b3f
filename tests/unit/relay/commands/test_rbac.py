"""`relay-sidecar rbac`: what `--preload` names as Roles, and one line for bad input."""

import pytest
import yaml

from relay_sidecar.commands.rbac import main
from tests.unit.manifests.built import Json

REQUIRED = ["--service-account", "main", "--namespace", "shop"]


def _printed(capsys: pytest.CaptureFixture[str], *kept: str) -> list[Json]:
    assert main([*REQUIRED, *(f"--preload={it}" for it in kept)], {}) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_what_is_in_one_namespace_is_a_role_there(capsys: pytest.CaptureFixture[str]) -> None:
    role, binding = _printed(capsys, "configmaps?namespace=edge", "deployments.apps?namespace=edge")
    assert [it["kind"] for it in (role, binding)] == ["Role", "RoleBinding"]
    assert {it["metadata"]["namespace"] for it in (role, binding)} == {"edge"}
    assert role["rules"] == [
        {"apiGroups": [group], "resources": [plural], "verbs": ["list", "watch"]}
        for group, plural in (("", "configmaps"), ("apps", "deployments"))
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "main", "namespace": "shop"}]


def test_accounts_of_one_name_take_no_role_from_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for namespace in ("a", "b"):
        flags = ["--service-account=main", f"--namespace={namespace}"]
        assert main([*flags, "--preload=configmaps?namespace=a"], {}) == 0
        printed.append(list(yaml.safe_load_all(capsys.readouterr().out)))
    at_home, abroad = ({it["metadata"]["name"] for it in objects} for objects in printed)
    assert (at_home, abroad) == ({"main-relay"}, {"b:main-relay"})


def test_what_is_in_all_namespaces_is_a_cluster_role(capsys: pytest.CaptureFixture[str]) -> None:
    role, binding = _printed(capsys, "nodes")
    assert [it["kind"] for it in (role, binding)] == ["ClusterRole", "ClusterRoleBinding"]
    assert binding["roleRef"]["kind"] == "ClusterRole"
    # Another account of the same name elsewhere has a role of its own.
    assert role["metadata"]["name"] == "shop:main-relay"


def test_one_name_is_all_that_its_rule_allows(capsys: pytest.CaptureFixture[str]) -> None:
    role, _ = _printed(capsys, "secrets?namespace=shop&fieldSelector=metadata.name=tls")
    assert role["rules"][0]["resourceNames"] == ["tls"]


def test_the_variable_of_the_relay_counts_as_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"RELAY_PRELOAD": "pods?namespace=a nodes"}
    assert main(REQUIRED, environ) == 0
    kinds = [it["kind"] for it in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
