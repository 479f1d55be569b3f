"""Rules, dashboard and scrape job speak of metrics, labels and ports that there are."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from elector_sidecar.metrics import COMPONENT
from tests.unit.manifests.built import MANIFESTS, containers, named, of_kind, overlay
from tests.unit.repository.checkout import ROOT, document, section
from tools.docs import prometheus_rule
from tools.docs.source import PROGRAMS
from tools.harness.controlplane.clients.kustomize import kustomize

FOLDER = MANIFESTS / "monitoring"
(SITE,) = re.findall(r"^site_url: (\S+)$", document("mkdocs.yml"), re.M)
METRIC = re.compile(r"\b(?:leader_election|elector|relay|gm|lc|pool)_[a-z_]+\b")
# Where each program says which metrics it has.
SOURCES = [f"{it.package}/{each}" for it in PROGRAMS.values() for each in it.metrics]


def _expressions() -> Iterator[str]:
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text(encoding="utf-8"))["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_metric_that_is_named_exists() -> None:
    known = {name for path in SOURCES for name in re.findall(r'"([a-z_]+)"', document(path))}
    told = {name for expression in _expressions() for name in METRIC.findall(expression)}
    named = {re.sub("_(bucket|sum|count)$", "", name) for name in told}
    assert len(named) > 15
    assert named <= known


def test_every_panel_and_alert_selects_the_elector_where_it_shares_a_name_with_client_go() -> None:
    selected = f'{{component="{COMPONENT}"'
    naming = [it for it in _expressions() if "leader_election_" in it]
    assert len(naming) == 2
    assert all(selected in it for it in naming)


def test_braces_and_brackets_of_every_expression_are_closed() -> None:
    for expression in _expressions():
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    rules = yaml.safe_load((FOLDER / "rules.yaml").read_text(encoding="utf-8"))
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({it["alert"] for it in alerts}) == len(alerts)
    for it in alerts:
        assert it["labels"]["severity"] in ("critical", "warning")
        assert it["annotations"].keys() == {"summary", "description", "runbook_url"}


def test_every_alert_links_to_its_section_of_the_manual() -> None:
    rules = yaml.safe_load((FOLDER / "rules.yaml").read_text(encoding="utf-8"))
    for it in (rule for group in rules["groups"] for rule in group["rules"]):
        page, _, anchor = it["annotations"]["runbook_url"].partition("#")
        assert page == f"{SITE}latest/reference/alerts/"
        assert anchor == it["alert"].lower()
        assert section("docs/reference/alerts.md", it["alert"]).strip()


def test_each_panel_says_what_it_shows_and_follows_the_variables() -> None:
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    assert {it["name"] for it in dashboard["templating"]["list"]} == {
        *("source", "namespace", "lease")
    }
    for panel in dashboard["panels"]:
        assert panel["description"].endswith("."), panel["title"]
        for target in panel["targets"]:
            metrics = METRIC.findall(target["expr"])
            assert target["expr"].count('namespace=~"$namespace"') == len(metrics)
            electors = [it for it in metrics if it.startswith(("elector_", "leader_election_"))]
            assert target["expr"].count('name=~"$lease"') == len(electors)


def test_each_program_has_panels_and_none_covers_another() -> None:
    panels = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    named = {it for panel in panels for it in METRIC.findall(str(panel["targets"]))}
    assert {it.partition("_")[0] for it in named} == {"leader", "elector", "relay", "gm", "pool"}
    assert {
        *("pool_role", "pool_link", "pool_borrowers", "pool_member_verdict"),
        *("pool_controller_dead_nodes", "pool_controller_cut_nodes", "pool_controller_cannot_tell"),
    } <= named
    assert len({it["id"] for it in panels}) == len(panels)
    assert len({(it["gridPos"]["x"], it["gridPos"]["y"]) for it in panels}) == len(panels)


def test_the_operators_objects_have_the_same_rules_and_ports(tmp_path: Path) -> None:
    base = os.path.relpath(FOLDER / "operator", tmp_path)
    body = {"namespace": "monitoring", "components": [base]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
    built = kustomize(tmp_path)
    rule = named(built, "PrometheusRule", "edge-sidecars")
    text = (FOLDER / "rules.yaml").read_text(encoding="utf-8")
    assert rule["spec"] == yaml.safe_load(text)
    assert prometheus_rule.text(ROOT) == document(prometheus_rule.NAME)
    endpoints = named(built, "PodMonitor", "edge-sidecars")["spec"]["podMetricsEndpoints"]
    scrape = yaml.safe_load((FOLDER / "scrape.yaml").read_text(encoding="utf-8"))
    (job,) = scrape["scrape_configs"]
    kept = next(it["regex"] for it in job["relabel_configs"] if it["action"] == "keep")
    assert {it["port"] for it in endpoints} == set(kept.split("|"))
    for it in endpoints:
        assert it["relabelings"] == [{"targetLabel": "job", "replacement": job["job_name"]}]


def test_the_scrape_job_keeps_the_ports_of_our_pods() -> None:
    (job,) = yaml.safe_load((FOLDER / "scrape.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    kept = next(it["regex"] for it in job["relabel_configs"] if it["action"] == "keep")
    deployments = [
        it for name in ("active-active", "pool") for it in of_kind(overlay(name), "Deployment")
    ]
    names = {
        port["name"] for it in deployments for c in containers(it) for port in c.get("ports", ())
    }
    assert set(kept.split("|")) == names - {"stream"}


def test_they_are_built_as_config_maps() -> None:
    built = of_kind(kustomize(FOLDER), "ConfigMap")
    assert {key for it in built for key in it["data"]} == {
        *("rules.yaml", "scrape.yaml", "edge-sidecars.json")
    }
