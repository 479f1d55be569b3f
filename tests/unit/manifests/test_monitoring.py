"""Rules, dashboard and scrape job speak of metrics, labels and ports that there are."""

import json
import re
from collections.abc import Iterator

import yaml

from elector_sidecar.metrics import COMPONENT
from tests.unit.manifests.built import MANIFESTS, containers, of_kind, overlay
from tests.unit.repository.checkout import document
from tools.harness.controlplane.kustomize import kustomize

FOLDER = MANIFESTS / "monitoring"
METRIC = re.compile(r"\b(?:leader_election|elector|relay|gm|lc)_[a-z_]+\b")
# Where each program says which metrics it has.
SOURCES = (
    "elector-sidecar/elector_sidecar/metrics.py",
    "relay-sidecar/relay_sidecar/telemetry/metrics.py",
    "gm/gm/telemetry/metrics.py",
    "lc/lc/status.py",
)


def _expressions() -> Iterator[str]:
    for group in yaml.safe_load((FOLDER / "rules.yaml").read_text(encoding="utf-8"))["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_metric_that_is_named_exists() -> None:
    known = {name for path in SOURCES for name in re.findall(r'"([a-z_]+)"', document(path))}
    named = {name for expression in _expressions() for name in METRIC.findall(expression)}
    assert len(named) > 15
    assert named <= known


def test_every_panel_and_alert_selects_the_elector_where_it_shares_a_name_with_client_go() -> None:
    selected = f'{{component="{COMPONENT}"}}'
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
        assert it["annotations"].keys() == {"summary", "description"}


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
