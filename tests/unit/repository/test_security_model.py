"""The security model: each statement has tests behind it, and manifests are what the page says."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from tests.unit.repository.checkout import ROOT, document, rows

SECURITY = "docs/explanation/security.md"
PAGES = (SECURITY, "docs/explanation/security-data.md")
PROOFS = ROOT / "tests/unit/repository/security_proofs.toml"
MANIFESTS = ROOT / "manifests"
# The first rows of tables.
HEADINGS = (
    "| account | may | because |",
    "| account | may | is limited by |",
    "| what | with the capabilities | because |",
    "| flag | default | in `manifests/` | who may come | encryption |",
    "| | `--access own` (default) | `--access caller` |",
    "| file | holds | mode |",
    "| who has | gets |",
    "| who is taken over | can | cannot |",
    "| against | is |",
)
# Bounds the statements for which a reason is given in place of a test.
MOST_UNPROVEN = 12
# Roles behind each row of "What each may do".
ROLES = {
    "of an elector": ["rbac/elector/role.yaml"],
    "the same with `--shards`": ["components/elector-shards/role.yaml"],
    "the same with `--leader-label`": ["rbac/leader-label/role.yaml"],
    "of GM": ["rbac/gm-namespace/role.yaml", "rbac/gm/role.yaml"],
    "of LC, mode relay": ["rbac/lc/role.yaml"],
    "a node (`system:nodes`)": ["rbac/pool-nodes/role.yaml"],
    "controller": ["rbac/pool-controller/role.yaml", "rbac/elector/role.yaml"],
    "candidate": ["rbac/pool-candidate/role.yaml"],
    "member's relay": ["rbac/pool-member/role.yaml"],
}
# How the page names resources.
WORDS = {
    "leases": "Lease",
    "events": "Events",
    "pods": "pods",
    "nodes": "odes",
    "secrets": "Secrets",
    "services": "Services",
    "endpointslices": "EndpointSlices",
    "deployments": "Deployments",
    "horizontalpodautoscalers": "autoscalers",
    "nodereports": "NodeReports",
    "poolmembers": "PoolMembers",
    "validatingadmissionpolicies": "policies",
    "validatingadmissionpolicybindings": "bindings",
}
# Containers that are root, with what they may beyond others.
ROOTS = {
    ("base/lc/daemonset.yaml", "lc"): ["CHOWN", "DAC_OVERRIDE", "FOWNER"],
    ("overlays/relay/lc/daemonset.yaml", "relay"): [],
    ("overlays/pool/member/daemonset.yaml", "member"): [],
    ("overlays/pool/member/daemonset.yaml", "relay"): [],
    ("keepalived/container/pod.yaml", "keepalived"): ["NET_ADMIN", "NET_RAW", "SETGID"],
}
# Which decide who comes in by a token.
DOORS = (
    "relay-sidecar/relay_sidecar/access/admission.py",
    "relay-sidecar/relay_sidecar/pool/pool_reads.py",
    "pool-sidecar/pool_sidecar/web/member_endpoints.py",
    "pool-sidecar/pool_sidecar/lan/local_proxy.py",
    "lc/lc/web/authentication.py",
)


def _blocks() -> Iterator[tuple[str, str]]:
    """Each paragraph, point and row of the page that may state something, with its section."""
    title = ""
    for line in "".join(map(document, PAGES)).splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line and not line.startswith(("|---", "For people")) and line not in HEADINGS:
            yield title, line


def test_each_statement_has_tests_behind_it_or_the_reason_why_none_can_show_it() -> None:
    proofs = tomllib.loads(PROOFS.read_text(encoding="utf-8"))
    blocks = list(_blocks())
    for title, quotes in proofs.items():
        for quote in quotes:
            found = [it for it in blocks if it[0] == title and quote in it[1]]
            assert len(found) == 1, (title, quote)
    for title, block in blocks:
        assert any(quote in block for quote in proofs[title]), block


def test_each_test_that_is_named_for_a_statement_exists() -> None:
    """A name that several files have says which is meant: `FILE::NAME`."""
    defined = _tests()
    named = _named()
    for tests in named:
        assert tests, "neither a test nor a reason"
        for test in () if isinstance(tests, str) else tests:
            file, _, name = test.rpartition("::")
            files = defined.get(name, [])
            assert file in files if file else len(files) == 1, (test, files)
    assert sum(isinstance(it, str) for it in named) < MOST_UNPROVEN


def test_each_statement_has_a_test_that_a_stage_plays() -> None:
    """What is played by hand only would be found untrue by no run."""
    for tests in _named():
        names = [] if isinstance(tests, str) else [it.rpartition("::")[2] for it in tests]
        assert not names or not set(names) <= _manual(), names


def _named() -> list[list[str] | str]:
    proofs = tomllib.loads(PROOFS.read_text(encoding="utf-8"))
    return [it for quotes in proofs.values() for it in quotes.values()]


@cache
def _tests() -> dict[str, list[str]]:
    """The files that define each test."""
    found = defaultdict[str, list[str]](list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.M):
            found[test].append(str(path.relative_to(ROOT)))
    return found


@cache
def _manual() -> frozenset[str]:
    """Tests with the mark as a whole, not with one of their parameters."""
    # This file has no test with it, by which those that have are found.
    mark = "mark." + "manual"
    return frozenset(
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if mark in (text := path.read_text(encoding="utf-8"))
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
        if any(ast.unparse(it) == f"pytest.{mark}" for it in node.decorator_list)
    )


def _rules(files: list[str]) -> Iterator[dict[str, list[str]]]:
    for file in files:
        for body in yaml.safe_load_all((MANIFESTS / file).read_text(encoding="utf-8")):
            if body["kind"].endswith("Role"):
                yield from body["rules"]


@pytest.mark.parametrize("account", ROLES)
def test_each_right_of_an_account_is_told(account: str) -> None:
    [may] = [it[1] for it in rows(SECURITY, "What each may do") if it[0] == account]
    rules = list(_rules(ROLES[account]))
    told = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([a-z ]+)`", may))))
    assert told == {verb for it in rules for verb in it["verbs"]}
    for resource in {each for it in rules for each in it["resources"]}:
        plural, _, subresource = resource.partition("/")
        assert WORDS.get(plural, "Sedna's objects") in may, resource
        assert not subresource or "status" in may, resource


def _containers(body: Any) -> Iterator[dict[str, Any]]:
    if isinstance(body, dict):
        if "securityContext" in body and isinstance(body.get("name"), str):
            yield body
        for value in body.values():
            yield from _containers(value)
    elif isinstance(body, list):
        for value in body:
            yield from _containers(value)


def _confined() -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    for file in sorted(MANIFESTS.rglob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        if "securityContext" in text:
            for body in yaml.safe_load_all(text):
                for it in _containers(body):
                    where = str(file.relative_to(MANIFESTS)), it["name"]
                    yield where, it["securityContext"]


def test_those_containers_are_root_that_the_page_names() -> None:
    """CoreDNS is its own project's image, which says who it is."""
    found = dict(_confined())
    assert len(found) > 8
    for where, context in found.items():
        added = context.get("capabilities", {}).get("add", [])
        assert not context.get("privileged")
        if where in ROOTS:
            assert (context["runAsUser"], sorted(added)) == (0, ROOTS[where])
        elif where[1] == "coredns":
            assert added == ["NET_BIND_SERVICE"]
        else:
            assert (context.get("runAsUser", 65532), added) == (65532, []), where
    assert found.keys() >= ROOTS.keys()


def test_gms_network_policy_lets_in_its_stream_and_prometheus() -> None:
    text = (MANIFESTS / "base/gm/network-policy.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text)["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    stream, prometheus = spec["ingress"]
    assert stream == {"ports": [{"port": "stream", "protocol": "TCP"}]}
    [source] = prometheus["from"]
    assert source == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    assert {it["port"] for it in prometheus["ports"]} == {4041, 9001, 10551}


@pytest.mark.parametrize("door", DOORS)
def test_a_token_is_compared_in_constant_time(door: str) -> None:
    """And by nothing else: == tells by its time how much is right."""
    compares = (ROOT / "lib/edge_sidecars/runtime/formats/bearer.py").read_text(encoding="utf-8")
    assert "hmac.compare_digest" in compares
    tree = ast.parse((ROOT / door).read_text(encoding="utf-8"))
    names = {ast.unparse(it) for it in ast.walk(tree)}
    assert names & {"authorizes", "is_token"}
    assert "hmac" not in names
    for it in ast.walk(tree):
        if isinstance(it, ast.Compare) and isinstance(it.ops[0], ast.Eq | ast.NotEq | ast.In):
            assert not re.search(r"\b(given|told|_?token)\b", ast.unparse(it)), ast.unparse(it)
