"""Which pods take part in an election, as `kubectl elector` reads it from their specs."""

from typing import Any

import pytest

from elector_sidecar.commands.ctl.candidates import CandidatePod, candidates

NAMED = [{"name": "ELECTOR_LEASE", "value": "shop"}]
FIELD = {"fieldRef": {"fieldPath": "metadata.annotations['edge-sidecars.io/lease']"}}


def pod(*, is_ready: bool = True, is_sidecar: bool = True, **container: Any) -> dict[str, Any]:
    elector = {
        "name": "elector",
        "readinessProbe": {"httpGet": {"path": "/eligible"}},
        **container,
    }
    main = {"name": "main", "args": ["--lease-renewal", "shop"]}
    kind = "initContainer" if is_sidecar else "container"
    spec: dict[str, Any] = {"nodeName": "node-a", "containers": [main]}
    spec[f"{kind}s"] = [*spec.get(f"{kind}s", ()), elector]
    return {
        "metadata": {"name": "shop-0", "annotations": {"edge-sidecars.io/lease": "shop"}},
        "spec": spec,
        "status": {
            "phase": "Running",
            f"{kind}Statuses": [{"name": "elector", "ready": is_ready}],
        },
    }


def found(it: dict[str, Any], *, holder: str = "") -> list[CandidatePod]:
    return candidates([it], lease="shop", namespace="ops", holder=holder)


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["--lease", "shop"]},
        {"args": ["--lease=shop", "--namespace=ops"]},
        {"command": ["elector-sidecar", "-election=shop"]},
        {"args": ["--lease=$(WHICH)"], "env": [{"name": "WHICH", "value": "shop"}]},
        {"env": NAMED},
        {"env": [{"name": "ELECTOR_LEASE", "valueFrom": FIELD}]},
        {"env": NAMED, "is_sidecar": False},
        {"args": ["--lease=shop"], "env": [{"name": "ELECTOR_LEASE", "value": "other"}]},
    ],
    ids=str,
)
def test_a_pod_takes_part_whose_elector_names_the_lease(container: dict[str, Any]) -> None:
    [it] = found(pod(**container))
    assert (it.name, it.container, it.node) == ("shop-0", "elector", "node-a")


@pytest.mark.parametrize(
    "container",
    [
        {},
        {"args": ["--lease"]},
        {"args": ["--lease", "shop-2"]},
        {"args": ["--lease=other"], "env": NAMED},
        {"args": ["--lease=shop", "--namespace", "dev"]},
        {"env": [*NAMED, {"name": "ELECTOR_NAMESPACE", "value": "dev"}]},
        {"env": [{"name": "ELECTOR_LEASE", "valueFrom": {"secretKeyRef": {"key": "shop"}}}]},
    ],
    ids=str,
)
def test_another_pod_takes_no_part(container: dict[str, Any]) -> None:
    assert found(pod(**container)) == []


@pytest.mark.parametrize(
    ("path", "is_ready", "eligible"),
    [
        ("/eligible", True, True),
        ("/eligible?x=1", False, False),
        ("/readyz?min_age=3s", True, True),
        ("/readyz", False, None),
        ("/livez", True, None),
    ],
)
def test_readiness_says_who_is_eligible_where_the_probe_asks_for_it(
    path: str, is_ready: bool, eligible: bool | None
) -> None:
    probe = {"httpGet": {"path": path}}
    [it] = found(pod(is_ready=is_ready, env=NAMED, readinessProbe=probe))
    assert it.is_eligible is eligible


@pytest.mark.parametrize(
    ("container", "annotation", "priority"),
    [
        ({}, None, 0),
        ({"args": ["--priority=7"]}, "9", 7),
        ({"env": [*NAMED, {"name": "ELECTOR_PRIORITY", "value": "8"}]}, "9", 8),
        ({}, "9", 9),
        ({}, "high", 0),
        ({}, "9" * 400, 0),
    ],
)
def test_a_flag_wins_over_the_annotation_of_a_priority(
    container: dict[str, Any], annotation: str | None, priority: int
) -> None:
    it = pod(**{"env": NAMED, **container})
    it["metadata"]["annotations"]["edge-sidecars.io/priority"] = annotation
    assert found(it)[0].priority == priority


def test_the_leader_is_the_pod_of_the_holders_name() -> None:
    assert found(pod(env=NAMED), holder="shop-0_8c1d")[0].is_leader
    assert not found(pod(env=NAMED), holder="shop-1_8c1d")[0].is_leader
    ending = pod(env=NAMED)
    ending["metadata"]["deletionTimestamp"] = "2026-11-28T21:00:00Z"
    assert found(ending)[0].status == "Terminating"


def test_what_is_no_whole_pod_takes_no_part() -> None:
    assert found({"metadata": {"name": "x"}}) == []
    assert found({"metadata": {"name": "x"}, "spec": {"containers": None}}) == []
