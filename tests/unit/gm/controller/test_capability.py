"""Each worker is given the URL of its LC with a capability that is its own, and keeps it."""

from dataclasses import replace
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.capability import (
    WORKER_KEY,
    capability,
    is_capability,
    key_for,
    key_of,
)
from gm.core.engine.plan import CreateChild
from gm.core.kind import DEFAULT_LC_SERVER, WorkerSettings
from gm.core.workers.manifests import spec_hash
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import dataset, federated, incremental, joint

FRESH = "ab" * 16
GIVING = WorkerSettings(DEFAULT_LC_SERVER, has_capabilities=True, fresh_key=FRESH)


def lc_server(child: Json) -> str:
    spec = child["spec"].get("template", child)["spec"]
    [found] = [it["value"] for it in spec["containers"][0]["env"] if it["name"] == "LC_SERVER"]
    return str(found)


def cluster_of(subject: Json, **changes: Any) -> Cluster:
    return Cluster(subject, settings=replace(GIVING, **changes))


def reporting(cluster: Cluster) -> dict[str, Json]:
    return {
        name: it for (_, name), it in cluster.children.items() if "LC_SERVER" in str(it.get("spec"))
    }


@pytest.mark.parametrize("subject", [incremental, federated, joint])
def test_each_worker_has_one_that_the_lc_of_its_node_can_check(subject: Any) -> None:
    cluster = cluster_of(subject())
    cluster.settle()
    metadata = cluster.subject["metadata"]
    key = key_of(metadata["annotations"], metadata["uid"])
    assert key == FRESH
    workers = reporting(cluster)
    assert workers
    for name, child in workers.items():
        base, slash, given = lc_server(child).rpartition("/w/")
        assert (base, slash) == ("http://127.0.0.1:9100", "/w/")
        spec = child["spec"].get("template", child)["spec"]
        node = spec.get("nodeName") or "wherever"
        assert is_capability(given, key, uid=metadata["uid"], worker=name, node=node)
        assert not is_capability(given, key, uid=metadata["uid"], worker="other", node=node)
    assert len(set(map(lc_server, workers.values()))) == len(workers)


def test_the_key_is_written_with_the_first_worker_and_before_it() -> None:
    cluster = cluster_of(incremental())
    plan = cluster.decide()
    assert any(isinstance(it, CreateChild) for it in plan.actions)
    assert plan.annotations[WORKER_KEY] == key_for(cluster.subject["metadata"]["uid"], FRESH)
    cluster.settle()
    cluster.settings = replace(GIVING, fresh_key="cd" * 16)
    assert WORKER_KEY not in cluster.settle().annotations


def test_what_has_no_worker_has_no_key() -> None:
    cluster = cluster_of(dataset())
    cluster.settle()
    assert WORKER_KEY not in cluster.subject["metadata"].get("annotations", {})


def test_a_key_that_was_copied_with_another_objects_manifest_is_replaced() -> None:
    subject = incremental()
    stolen = key_for("uid-of-another", "ef" * 16)
    subject["metadata"].setdefault("annotations", {})[WORKER_KEY] = stolen
    cluster = cluster_of(subject)
    cluster.settle()
    metadata = cluster.subject["metadata"]
    assert key_of(metadata["annotations"], metadata["uid"]) == FRESH


@pytest.mark.parametrize("subject", [incremental, federated])
def test_pods_of_before_run_on_and_lost_keys_end_none(subject: Any) -> None:
    cluster = Cluster(subject())
    cluster.settle()
    before = {name: spec_hash(it) for (_, name), it in cluster.children.items()}
    cluster.settings = GIVING
    cluster.settle()
    assert {name: spec_hash(it) for (_, name), it in cluster.children.items()} == before
    assert cluster.deleted == []
    cluster.subject["metadata"]["annotations"].pop(WORKER_KEY, None)
    cluster.settle()
    assert cluster.deleted == []


def test_a_service_of_before_is_rolled_out_once_with_capabilities() -> None:
    cluster = Cluster(joint())
    cluster.settle()
    cluster.settings = GIVING
    cluster.settle()
    assert all("/w/" in lc_server(it) for it in reporting(cluster).values())
    seen = {name: spec_hash(it) for (_, name), it in cluster.children.items()}
    cluster.settings = replace(GIVING, fresh_key="cd" * 16)
    cluster.settle()
    assert {name: spec_hash(it) for (_, name), it in cluster.children.items()} == seen


def test_capabilities_are_of_one_key_uid_worker_and_node() -> None:
    told = {"uid": "u", "worker": "w", "node": "n"}
    own = capability(FRESH, **told)
    others = [capability(FRESH, **{**told, field: "x"}) for field in told]
    assert len({own, capability("cd" * 16, **told), *others}) == 5
    assert is_capability(own, FRESH, **told)
    assert is_capability(capability(FRESH, uid="u", worker="w"), FRESH, **told)
    for wrong in (*others, "", "\ud800", own[:-1], f"{own}="):
        assert not is_capability(wrong, FRESH, **told)
    assert key_of({WORKER_KEY: key_for("u", FRESH)}, "u") == FRESH
    for value in ("", FRESH, f"v:{FRESH}", "u:", "u:xyz", 7, None):
        assert key_of({WORKER_KEY: value}, "u") == ""
