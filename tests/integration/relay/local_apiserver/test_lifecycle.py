"""What becomes of objects in the origin: their end, their owners, their versions, a restart."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.store import Expired, ObjectChange
from edge_sidecars.apimachinery.watch_events import EventType
from edge_sidecars.local_apiserver.storage import SqliteStorage
from tests.integration.relay.local_apiserver.local_origin import Json, LocalOrigin

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
EVENTS = "/api/v1/namespaces/default/events"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"
STRING: Json = {"type": "string"}


def version(name: str = "v1", *, storage: bool = True, **properties: Any) -> Json:
    spec = {"type": "object", "properties": properties or {"size": {"type": "integer"}}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }


def definition(*versions: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": list(versions) or [version()],
            **spec,
        },
    }


def gadget(name: str, api_version: str = "example.com/v1", **spec: Any) -> Json:
    return {"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": name}, "spec": spec}


def make(origin: LocalOrigin, path: str, body: Json) -> Json:
    told = origin.ask("POST", path, body)
    assert told.status == 201, told
    return told.body


def config_map(origin: LocalOrigin, name: str, *owners: Json, **meta: Any) -> Json:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return make(
        origin, CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": references, **meta}}
    )


def exists(origin: LocalOrigin, path: str) -> bool:
    return origin.ask("GET", path).status == 200


def names(origin: LocalOrigin, path: str = CONFIG_MAPS) -> list[str]:
    return [found["metadata"]["name"] for found in origin.objects(path)]


# Owners


def test_dependents_go_with_their_last_owner() -> None:
    with LocalOrigin() as origin:
        one, two = config_map(origin, "one"), config_map(origin, "two")
        config_map(origin, "both", one, two)
        config_map(origin, "only", one)
        origin.ask("DELETE", f"{CONFIG_MAPS}/one")
        origin.until(lambda: names(origin) == ["both", "two"])
        origin.until(
            lambda: (
                len(origin.ask("GET", f"{CONFIG_MAPS}/both").body["metadata"]["ownerReferences"])
                == 1
            )
        )
        origin.ask("DELETE", f"{CONFIG_MAPS}/two")
        origin.until(lambda: names(origin) == [])


def test_an_object_whose_owner_never_was_goes() -> None:
    with LocalOrigin() as origin:
        config_map(origin, "lost", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
        origin.until(lambda: names(origin) == [])


def test_an_owner_of_a_kind_that_is_not_served_counts_as_there() -> None:
    with LocalOrigin() as origin:
        reference = {"apiVersion": "example.com/v1", "kind": "Ghost", "name": "g", "uid": "u"}
        kept = {"metadata": {"name": "kept", "ownerReferences": [reference]}}
        make(origin, CONFIG_MAPS, kept)
        config_map(origin, "lost", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
        origin.until(lambda: names(origin) == ["kept"])


def test_orphans_stay_without_their_owner() -> None:
    with LocalOrigin() as origin:
        owner = config_map(origin, "owner")
        config_map(origin, "child", owner)
        told = origin.ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Orphan")
        assert told.body["metadata"]["finalizers"] == ["orphan"]
        origin.until(lambda: names(origin) == ["child"])
        meta = origin.ask("GET", f"{CONFIG_MAPS}/child").body["metadata"]
        assert "ownerReferences" not in meta


def test_foreground_deletion_ends_with_the_dependents() -> None:
    with LocalOrigin() as origin:
        owner = config_map(origin, "owner")
        config_map(origin, "child", owner, finalizers=["example.com/wait"])
        told = origin.ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Foreground")
        assert told.body["metadata"]["finalizers"] == ["foregroundDeletion"]

        def is_child_ending() -> bool:
            meta = origin.ask("GET", f"{CONFIG_MAPS}/child").body["metadata"]
            return "deletionTimestamp" in meta

        origin.until(is_child_ending)
        assert exists(origin, f"{CONFIG_MAPS}/owner")
        body = {"metadata": {"finalizers": None}}
        origin.ask("PATCH", f"{CONFIG_MAPS}/child", body, content_type=MERGE)
        origin.until(lambda: names(origin) == [])


def test_a_job_orphans_its_pods_unless_told_otherwise() -> None:
    with LocalOrigin(collects=False) as origin:
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        make(origin, jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
        told = origin.ask("DELETE", f"{jobs}/j")
        assert told.body["metadata"]["finalizers"] == ["orphan"]


# Namespaces


def test_a_namespace_ends_after_its_contents() -> None:
    with LocalOrigin() as origin:
        make(origin, NAMESPACES, {"metadata": {"name": "n"}})
        path = f"{NAMESPACES}/n/configmaps"
        make(origin, path, {"metadata": {"name": "a"}})
        make(origin, path, {"metadata": {"name": "b", "finalizers": ["example.com/wait"]}})
        make(origin, CONFIG_MAPS, {"metadata": {"name": "elsewhere"}})
        told = origin.ask("DELETE", f"{NAMESPACES}/n")
        assert told.body["status"]["phase"] == "Terminating"
        origin.until(lambda: names(origin) == ["elsewhere", "b"])
        refused = origin.ask("POST", path, {"metadata": {"name": "late"}})
        assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
        assert exists(origin, f"{NAMESPACES}/n")
        body = {"metadata": {"finalizers": None}}
        origin.ask("PATCH", f"{path}/b", body, content_type=MERGE)
        origin.until(lambda: not exists(origin, f"{NAMESPACES}/n"))
        assert names(origin) == ["elsewhere"]
        assert origin.ask("POST", path, {"metadata": {"name": "later"}}).status == 404


def test_what_is_begun_while_a_namespace_ends_does_not_outlive_it(tmp_path: Path) -> None:
    async def storm(origin: LocalOrigin) -> None:
        async def create(number: int) -> None:
            info = RequestInfo.parse("POST", f"{NAMESPACES}/n/configmaps")
            body = b'{"metadata":{"name":"c-%d"}}' % number
            await origin.origin.write(info, headers={}, body=body)

        async def end() -> None:
            info = RequestInfo.parse("DELETE", f"{NAMESPACES}/n")
            await origin.origin.write(info, headers={}, body=b"")

        # The end is seen alone, while what was allowed with it is on its way.
        await asyncio.gather(end(), *map(create, range(300)))

    with LocalOrigin(tmp_path) as origin:
        make(origin, NAMESPACES, {"metadata": {"name": "n"}})
        origin.play(storm(origin))
        origin.until(lambda: not exists(origin, f"{NAMESPACES}/n"))
        assert names(origin) == []


def test_the_system_namespaces_are_there_and_stay() -> None:
    with LocalOrigin() as origin:
        system = ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert names(origin, NAMESPACES) == system
        assert origin.ask("DELETE", f"{NAMESPACES}/kube-system").status == 403


# Definitions


def test_custom_resources_end_before_their_definition() -> None:
    with LocalOrigin() as origin:
        make(origin, DEFINITIONS, definition())
        make(origin, GADGETS, gadget("a", size=1))
        waiting = gadget("b", size=1)
        waiting["metadata"]["finalizers"] = ["example.com/wait"]
        make(origin, GADGETS, waiting)
        told = origin.ask("DELETE", f"{DEFINITIONS}/gadgets.example.com")
        assert "deletionTimestamp" in told.body["metadata"]
        origin.until(lambda: names(origin, GADGETS) == ["b"])
        assert origin.ask("POST", GADGETS, gadget("late", size=1)).status == 405
        body = {"metadata": {"finalizers": None}}
        origin.ask("PATCH", f"{GADGETS}/b", body, content_type=MERGE)
        origin.until(lambda: not exists(origin, f"{DEFINITIONS}/gadgets.example.com"))
        assert origin.origin.resource(ResourceName("example.com", "v1", "gadgets")) is None
        assert origin.ask("POST", GADGETS, gadget("gone", size=1)).status == 404
        make(origin, DEFINITIONS, definition())
        assert names(origin, GADGETS) == []


def test_a_new_schema_prunes_and_defaults_what_is_there(tmp_path: Path) -> None:
    renewed: list[str] = []
    with LocalOrigin(tmp_path) as origin:
        made = make(origin, DEFINITIONS, definition(version(old=STRING, kept=STRING)))
        before = make(origin, GADGETS, gadget("g", old="o", kept="k"))
        origin.origin.on_renewal(lambda name: renewed.append(str(name)))
        made["spec"]["versions"] = [version(kept=STRING, new={"type": "string", "default": "n"})]
        assert origin.ask("PUT", f"{DEFINITIONS}/gadgets.example.com", made).status == 200
        after = origin.ask("GET", f"{GADGETS}/g").body
        assert after["spec"] == {"kept": "k", "new": "n"}
        assert after["metadata"] == before["metadata"]
        assert renewed == ["gadgets.v1.example.com"]
    with LocalOrigin(tmp_path) as origin:
        assert origin.ask("GET", f"{GADGETS}/g").body == after


def test_versions_of_a_custom_resource_are_one_object(tmp_path: Path) -> None:
    both = definition(version("v1"), version("v2", storage=False))
    second = GADGETS.replace("/v1/", "/v2/")
    with LocalOrigin(tmp_path) as origin:
        make(origin, DEFINITIONS, both)
        make(origin, GADGETS, gadget("g", size=1))
        assert origin.ask("GET", f"{second}/g").body["apiVersion"] == "example.com/v2"
        told = origin.ask("PATCH", f"{second}/g", {"spec": {"size": 2}}, content_type=MERGE)
        assert told.body["apiVersion"] == "example.com/v2"
        found = origin.ask("GET", f"{GADGETS}/g").body
        assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"size": 2})
        changed = origin.ask("GET", f"{DEFINITIONS}/gadgets.example.com").body
        for each in changed["spec"]["versions"]:
            each["storage"] = each["name"] == "v2"
        told = origin.ask("PUT", f"{DEFINITIONS}/gadgets.example.com", changed)
        assert told.body["status"]["storedVersions"] == ["v1", "v2"]
        assert origin.ask("GET", f"{GADGETS}/g").body == found
    with LocalOrigin(tmp_path) as origin:
        assert origin.ask("GET", f"{GADGETS}/g").body == found


def test_a_definition_whose_names_are_taken_is_not_served() -> None:
    with LocalOrigin() as origin:
        make(origin, DEFINITIONS, definition())
        other = definition(names={"plural": "gizmos", "kind": "Gadget"})
        other["metadata"]["name"] = "gizmos.example.com"
        conditions = make(origin, DEFINITIONS, other)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {
            "NamesAccepted": "False",
            "Established": "False",
        }
        assert origin.origin.resource(ResourceName("example.com", "v1", "gizmos")) is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.strategy"),
        (
            {"versions": [version(size={"type": "integer", "x-kubernetes-validations": []})]},
            "spec.validation.openAPIV3Schema.properties[spec].properties[size]"
            ".x-kubernetes-validations",
        ),
    ],
)
def test_what_the_origin_would_not_enforce_it_does_not_take(spec: Json, field: str) -> None:
    with LocalOrigin() as origin:
        told = origin.ask("POST", DEFINITIONS, definition(**spec))
        assert told.status == 422
        assert [cause["field"] for cause in told.body["details"]["causes"]] == [field]


# Versions


def test_versions_are_one_growing_sequence_over_all_resources(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        with LocalOrigin(tmp_path) as origin:
            for number in range(3):
                name = f"c-{len(seen)}-{number}"
                made = make(origin, CONFIG_MAPS, {"metadata": {"name": name}})
                seen.append(int(made["metadata"]["resourceVersion"]))
                made = make(origin, LEASES, {"metadata": {"name": name}})
                seen.append(int(made["metadata"]["resourceVersion"]))
                # The end of an object has a version, too, that nobody else gets.
                origin.ask("DELETE", f"{LEASES}/{name}")
    assert seen == sorted(set(seen))


def test_every_collection_stands_at_the_version_of_all() -> None:
    with LocalOrigin() as origin:
        make(origin, CONFIG_MAPS, {"metadata": {"name": "c"}})
        made = make(origin, LEASES, {"metadata": {"name": "l"}})
        found = origin.collection(RequestInfo.parse("GET", CONFIG_MAPS))
        assert found.cursor == int(made["metadata"]["resourceVersion"])


def test_a_watch_goes_on_after_a_restart_but_not_after_the_machine_went_down(
    tmp_path: Path,
) -> None:
    info = RequestInfo.parse("GET", CONFIG_MAPS)
    with LocalOrigin(tmp_path) as origin:
        make(origin, CONFIG_MAPS, {"metadata": {"name": "c"}})
        before = origin.collection(info).cursor
    with LocalOrigin(tmp_path) as origin:
        assert origin.collection(info).since(before) == []
    _pretend_another_boot(tmp_path)
    with LocalOrigin(tmp_path) as origin:
        with pytest.raises(Expired):
            origin.collection(info).since(before)
        made = make(origin, CONFIG_MAPS, {"metadata": {"name": "d"}})
        # What was lost with the machine may have been given out up to here.
        assert int(made["metadata"]["resourceVersion"]) > before + 100_000


def _pretend_another_boot(directory: Path) -> None:
    async def rewrite() -> None:
        storage = SqliteStorage(directory, boot="another", settled=lambda rows: None)
        await storage.load()
        await storage.close()

    asyncio.run(rewrite())


def test_subscribers_see_each_change_once_and_in_order() -> None:
    seen: list[tuple[str, EventType, int]] = []

    def learn(name: ResourceName, changes: Sequence[ObjectChange]) -> None:
        seen.extend((name.plural, change.type, change.version) for change in changes)

    with LocalOrigin() as origin:
        origin.origin.subscribe(learn)
        make(origin, CONFIG_MAPS, {"metadata": {"name": "c"}})
        make(origin, LEASES, {"metadata": {"name": "l"}})
        origin.ask("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}, content_type=MERGE)
        # Nothing changes, nothing is told.
        origin.ask("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}, content_type=MERGE)
        origin.ask("PATCH", f"{CONFIG_MAPS}/c?dryRun=All", {"data": None}, content_type=MERGE)
        origin.ask("DELETE", f"{CONFIG_MAPS}/c")
    assert [(plural, kind) for plural, kind, _ in seen] == [
        ("configmaps", EventType.ADDED),
        ("leases", EventType.ADDED),
        ("configmaps", EventType.MODIFIED),
        ("configmaps", EventType.DELETED),
    ]
    versions = [number for *_, number in seen]
    assert versions == sorted(set(versions))


def test_of_writers_at_one_version_one_wins(tmp_path: Path) -> None:
    async def race(origin: LocalOrigin, made: Json) -> list[int]:
        info = RequestInfo.parse("PUT", f"{LEASES}/l")

        async def take(holder: int) -> int:
            body = (
                b'{"metadata":{"name":"l","resourceVersion":"%s"},"spec":{"holderIdentity":"h%d"}}'
                % (made["metadata"]["resourceVersion"].encode(), holder)
            )
            return (await origin.origin.write(info, headers={}, body=body)).status

        return list(await asyncio.gather(*map(take, range(20))))

    with LocalOrigin(tmp_path) as origin:
        made = make(origin, LEASES, {"metadata": {"name": "l"}})
        statuses = origin.play(race(origin, made))
        assert sorted(statuses) == [200] + [409] * 19


def test_generated_names_are_new_ones() -> None:
    with LocalOrigin() as origin:
        made = [make(origin, CONFIG_MAPS, {"metadata": {"generateName": "c-"}}) for _ in range(5)]
        found = {one["metadata"]["name"] for one in made}
        assert len(found) == 5
        assert all(name.startswith("c-") and len(name) == 7 for name in found)


def test_a_pod_that_was_placed_ends_when_its_kubelet_says_so() -> None:
    pods = "/api/v1/namespaces/default/pods"
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    with LocalOrigin() as origin:
        make(origin, "/api/v1/nodes", {"metadata": {"name": "n"}})
        for name, node in (("kept", "n"), ("lost", "nowhere")):
            make(origin, pods, {"metadata": {"name": name}, "spec": {**spec, "nodeName": node}})
            told = origin.ask("DELETE", f"{pods}/{name}")
            assert told.body["metadata"]["deletionGracePeriodSeconds"] == 30
        origin.until(lambda: names(origin, pods) == ["kept"])
        origin.ask("DELETE", f"{pods}/kept?gracePeriodSeconds=0")
        assert names(origin, pods) == []


def test_what_is_nested_too_deeply_is_refused_and_harms_nobody() -> None:
    with LocalOrigin() as origin:
        made = definition(version(any={"x-kubernetes-preserve-unknown-fields": True}))
        make(origin, DEFINITIONS, made)
        for levels in (101, 900, 50_000):
            deep = '{"a":' * levels + "1" + "}" * levels
            body = json.dumps(gadget("g", any="DEEP")).replace('"DEEP"', deep)
            assert origin.ask("POST", GADGETS, body).status == 400
        assert origin.ask("POST", GADGETS, "[" * 100_000).status == 400
        make(origin, GADGETS, gadget("g", any=1))
        operations: list[Json] = [{"op": "add", "path": "/spec/any", "value": {"a": {}}}]
        operations += [{"op": "copy", "from": "/spec/any", "path": "/spec/any/a"}] * 120
        told = origin.ask("PATCH", f"{GADGETS}/g", operations, content_type=JSON_PATCH)
        assert told.status == 422
        assert origin.ask("DELETE", f"{GADGETS}/g").status == 200


def test_a_scale_subresource_is_not_offered_and_that_is_said() -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    with LocalOrigin() as origin:
        scaled = definition({**version(), "subresources": {"scale": paths}})
        assert "scale: not offered" in origin.ask("POST", DEFINITIONS, scaled).warning


# Restart and time


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with LocalOrigin(tmp_path) as origin:
        make(origin, DEFINITIONS, definition())
        made = [
            make(origin, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}),
            make(origin, LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}}),
            make(origin, GADGETS, gadget("g", size=3)),
        ]
        make(origin, CONFIG_MAPS, {"metadata": {"name": "gone"}})
        origin.ask("DELETE", f"{CONFIG_MAPS}/gone")
    with LocalOrigin(tmp_path) as origin:
        paths = (f"{CONFIG_MAPS}/c", f"{LEASES}/l", f"{GADGETS}/g")
        assert [origin.ask("GET", path).body for path in paths] == made
        assert names(origin) == ["c"]


def test_an_end_that_was_begun_is_finished_after_a_restart(tmp_path: Path) -> None:
    with LocalOrigin(tmp_path, collects=False) as origin:
        make(origin, NAMESPACES, {"metadata": {"name": "n"}})
        make(origin, f"{NAMESPACES}/n/configmaps", {"metadata": {"name": "a"}})
        owner = config_map(origin, "owner")
        config_map(origin, "child", owner)
        make(origin, DEFINITIONS, definition())
        make(origin, GADGETS, gadget("g", size=3))
        origin.ask("DELETE", f"{CONFIG_MAPS}/owner")
        origin.ask("DELETE", f"{NAMESPACES}/n")
        origin.ask("DELETE", f"{DEFINITIONS}/gadgets.example.com")
        assert names(origin) == ["child", "a"]
    with LocalOrigin(tmp_path) as origin:
        origin.until(lambda: names(origin) == [])
        origin.until(lambda: not exists(origin, f"{NAMESPACES}/n"))
        origin.until(lambda: names(origin, DEFINITIONS) == [])


def test_events_end_an_hour_after_they_were_written_last(tmp_path: Path) -> None:
    about = {"namespace": "default", "kind": "Pod", "name": "p"}
    with LocalOrigin(tmp_path, collects=False) as origin:
        for name in ("old", "renewed"):
            make(origin, EVENTS, {"metadata": {"name": name}, "involvedObject": about})
        origin.clock_ahead = 3000.0
        origin.ask("PATCH", f"{EVENTS}/renewed", {"count": 2}, content_type=MERGE)
    with LocalOrigin(tmp_path, clock_ahead=4000.0) as origin:
        origin.until(lambda: names(origin, EVENTS) == ["renewed"])


def test_events_of_both_groups_are_the_same_objects() -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    with LocalOrigin() as origin:
        about = {"namespace": "default", "kind": "Pod", "name": "p"}
        make(origin, EVENTS, {"metadata": {"name": "e"}, "involvedObject": about, "message": "m"})
        assert names(origin, new) == ["e"]
        found = origin.ask("GET", f"{new}/e").body
        assert (found["apiVersion"], found["regarding"], found["note"]) == (
            "events.k8s.io/v1",
            about,
            "m",
        )
        origin.ask("DELETE", f"{new}/e")
        assert names(origin, EVENTS) == names(origin, new) == []


def test_a_selection_of_objects_is_deleted() -> None:
    with LocalOrigin() as origin:
        for number, label in itertools.product(range(3), ("a", "b")):
            meta = {"name": f"{label}{number}", "labels": {"x": label}}
            make(origin, CONFIG_MAPS, {"metadata": meta})
        told = origin.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=x%3Da&dryRun=All")
        assert len(told.body["items"]) == 3
        told = origin.ask(
            "DELETE", f"{CONFIG_MAPS}?labelSelector=x%3Da&fieldSelector=metadata.name!%3Da0"
        )
        assert [item["metadata"]["name"] for item in told.body["items"]] == ["a1", "a2"]
        assert names(origin) == ["a0", "b0", "b1", "b2"]
