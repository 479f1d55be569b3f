"""`elector-sidecar rbac`: the rules of manifests/rbac as YAML, and one line for bad input."""

import pytest
import yaml

from elector_sidecar.commands.rbac import main
from tests.unit.manifests.built import MANIFESTS, Json
from tools.harness.pods.elector import ELECTOR_RULES


def _printed(
    capsys: pytest.CaptureFixture[str], *more: str, account: str = "main"
) -> tuple[Json, Json]:
    assert main(["--lease", "shop", "--service-account", account, *more], {}) == 0
    role, binding = yaml.safe_load_all(capsys.readouterr().out)
    return role, binding


def test_the_rules_are_those_of_the_manifests(capsys: pytest.CaptureFixture[str]) -> None:
    role, binding = _printed(capsys)
    text = (MANIFESTS / "rbac/elector/role.yaml").read_text().replace("workload", "shop")
    by_hand, _ = yaml.safe_load_all(text)
    assert role == by_hand
    assert role["rules"][0]["resourceNames"] == ["shop"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "shop-elector"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "main"}]


def test_each_account_has_a_binding_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    bindings = [_printed(capsys, account=it)[1] for it in ("main", "other")]
    assert [it["metadata"]["name"] for it in bindings] == [
        "shop-elector:main",
        "shop-elector:other",
    ]
    assert {it["roleRef"]["name"] for it in bindings} == {"shop-elector"}


def test_the_rules_of_shards_are_those_of_the_component(
    capsys: pytest.CaptureFixture[str],
) -> None:
    role, binding = _printed(capsys, "--shards")
    # The flag as the elector is given it.
    assert _printed(capsys, "--shards", "64") == (role, binding)
    by_hand = yaml.safe_load((MANIFESTS / "components/elector-shards/role.yaml").read_text())
    assert role["rules"] == by_hand["rules"]
    # By which manifests/election-policy finds the election.
    assert binding["metadata"]["labels"]["edge-sidecars.io/election"] == "shop"


def test_the_leader_label_adds_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    plain, labelled = _printed(capsys)[0], _printed(capsys, "--leader-label")[0]
    by_hand, _ = yaml.safe_load_all((MANIFESTS / "rbac/leader-label/role.yaml").read_text())
    assert _printed(capsys, "--leader-label", "role=leader")[0] == labelled
    assert labelled["rules"] == plain["rules"] + by_hand["rules"]


def test_a_namespace_is_that_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    role, binding = _printed(capsys, "--namespace", "123")
    assert {it["metadata"]["namespace"] for it in (role, binding)} == {"123"}
    assert binding["subjects"][0]["namespace"] == "123"


def test_the_namespace_wide_role_lends_what_an_elector_uses() -> None:
    path = MANIFESTS / "injection/policies/cluster-role.yaml"
    leases, _ = yaml.safe_load(path.read_text())["rules"]
    assert set(leases["verbs"]) == set(ELECTOR_RULES[0]["verbs"])
