"""Pages of operations are true of the code: each alert, each text of an answer."""

import inspect
import re

import yaml

from edge_sidecars.apimachinery import status as statuses
from elector_sidecar.core.lifecycle import Health
from tests.unit.repository.checkout import document, rows, section
from tools.docs.reasons import SPOKEN

PAGES = "docs/reference"
METRICS = [
    *("Of the elector", "Of the relay", "Of the controller of pools", "Of a pool's member"),
    *("Of GM", "Of LC", "Of each process"),
]
# Of core/status.py: those that speak in kube-apiserver's words of what the client sent.
OF_THE_CLIENT = {"bad_request", "not_found", "invalid", "not_acceptable", "not_shown_as"}


def test_every_heading_of_metrics_is_a_program() -> None:
    found = re.findall(r"^### (.+)$", section(f"{PAGES}/metrics.md", "Metrics"), re.M)
    assert found == METRICS


def test_every_alert_is_told_with_its_severity_and_no_other() -> None:
    groups = yaml.safe_load(document("manifests/monitoring/rules.yaml"))["groups"]
    rules = {rule["alert"]: rule["labels"]["severity"] for it in groups for rule in it["rules"]}
    told = re.findall(
        r"^### (\w+)\n\nSeverity: (\w+)\. .+$", section(f"{PAGES}/alerts.md", "Alerts"), re.M
    )
    assert dict(told) == rules
    assert len(told) == len(rules)


def test_each_state_of_a_mains_health_is_told() -> None:
    (row,) = (
        cells
        for cells in rows(f"{PAGES}/reasons.md", "What an elector says")
        if cells[0] == "`the main is not healthy: …`"
    )
    states = {it.value for it in Health} - {"ok"}
    named = set(re.findall(r"`([^`]+)`", row[1]))
    assert named - {"--health-url"} == states | {"not asked yet"}


def test_no_maker_of_a_refusal_is_left_out() -> None:
    """`tools.docs.reasons` asks each of those that make a Status in words of their own."""
    makers = {
        name
        for name, it in vars(statuses).items()
        if inspect.isfunction(it)
        and inspect.signature(it, eval_str=True).return_annotation is statuses.Status
    }
    fixed = {
        "unauthorized",
        "timeout_outcome_unknown",
        "conflict",
        "expired",
        "expired_continue",
        "no_such_resource",
    }
    assert makers == set(SPOKEN) | fixed | {"too_large_version", "forbidden"} | OF_THE_CLIENT
