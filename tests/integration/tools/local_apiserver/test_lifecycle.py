"""What becomes of objects in the server: their end, their owners, their versions, a restart."""

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
from tests.integration.tools.local_apiserver.in_process import InProcess, Json
from tools.local_apiserver.storage import SqliteStorage

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


def make(server: InProcess, path: str, body: Json) -> Json:
    told = server.ask("POST", path, body)
    assert told.status == 201, told
    return told.body


def config_map(server: InProcess, name: str, *owners: Json, **meta: Any) -> Json:
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
        server, CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": references, **meta}}
    )


def exists(server: InProcess, path: str) -> bool:
    return server.ask("GET", path).status == 200


def names(server: InProcess, path: str = CONFIG_MAPS) -> list[str]:
    return [found["metadata"]["name"] for found in server.objects(path)]


# Owners


def test_dependents_go_with_their_last_owner() -> None:
    with InProcess() as server:
        one, two = config_map(server, "one"), config_map(server, "two")
        config_map(server, "both", one, two)
        config_map(server, "only", one)
        server.ask("DELETE", f"{CONFIG_MAPS}/one")
        server.until(lambda: names(server) == ["both", "two"])
        server.until(
            lambda: (
                len(server.ask("GET", f"{CONFIG_MAPS}/both").body["metadata"]["ownerReferences"])
                == 1
            )
        )
        server.ask("DELETE", f"{CONFIG_MAPS}/two")
        server.until(lambda: names(server) == [])


def test_an_object_whose_owner_never_was_goes() -> None:
    with InProcess() as server:
        config_map(server, "lost", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
        server.until(lambda: names(server) == [])


def test_an_owner_of_a_kind_that_is_not_served_counts_as_there() -> None:
    with InProcess() as server:
        reference = {"apiVersion": "example.com/v1", "kind": "Ghost", "name": "g", "uid": "u"}
        kept = {"metadata": {"name": "kept", "ownerReferences": [reference]}}
        make(server, CONFIG_MAPS, kept)
        config_map(server, "lost", {"metadata": {"name": "nobody", "uid": "no-such-uid"}})
        server.until(lambda: names(server) == ["kept"])


def test_orphans_stay_without_their_owner() -> None:
    with InProcess() as server:
        owner = config_map(server, "owner")
        config_map(server, "child", owner)
        told = server.ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Orphan")
        assert told.body["metadata"]["finalizers"] == ["orphan"]
        server.until(lambda: names(server) == ["child"])
        meta = server.ask("GET", f"{CONFIG_MAPS}/child").body["metadata"]
        assert "ownerReferences" not in meta


def test_foreground_deletion_ends_with_the_dependents() -> None:
    with InProcess() as server:
        owner = config_map(server, "owner")
        config_map(server, "child", owner, finalizers=["example.com/wait"])
        told = server.ask("DELETE", f"{CONFIG_MAPS}/owner?propagationPolicy=Foreground")
        assert told.body["metadata"]["finalizers"] == ["foregroundDeletion"]

        def is_child_ending() -> bool:
            meta = server.ask("GET", f"{CONFIG_MAPS}/child").body["metadata"]
            return "deletionTimestamp" in meta

        server.until(is_child_ending)
        assert exists(server, f"{CONFIG_MAPS}/owner")
        body = {"metadata": {"finalizers": None}}
        server.ask("PATCH", f"{CONFIG_MAPS}/child", body, content_type=MERGE)
        server.until(lambda: names(server) == [])


def test_a_job_orphans_its_pods_unless_told_otherwise() -> None:
    with InProcess(collects=False) as server:
        jobs = "/apis/batch/v1/namespaces/default/jobs"
        pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        make(server, jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}})
        told = server.ask("DELETE", f"{jobs}/j")
        assert told.body["metadata"]["finalizers"] == ["orphan"]


# Namespaces


def test_a_namespace_ends_after_its_contents() -> None:
    with InProcess() as server:
        make(server, NAMESPACES, {"metadata": {"name": "n"}})
        path = f"{NAMESPACES}/n/configmaps"
        make(server, path, {"metadata": {"name": "a"}})
        make(server, path, {"metadata": {"name": "b", "finalizers": ["example.com/wait"]}})
        make(server, CONFIG_MAPS, {"metadata": {"name": "elsewhere"}})
        told = server.ask("DELETE", f"{NAMESPACES}/n")
        assert told.body["status"]["phase"] == "Terminating"
        server.until(lambda: names(server) == ["elsewhere", "b"])
        refused = server.ask("POST", path, {"metadata": {"name": "late"}})
        assert (refused.status, refused.body["reason"]) == (403, "Forbidden")
        assert exists(server, f"{NAMESPACES}/n")
        body = {"metadata": {"finalizers": None}}
        server.ask("PATCH", f"{path}/b", body, content_type=MERGE)
        server.until(lambda: not exists(server, f"{NAMESPACES}/n"))
        assert names(server) == ["elsewhere"]
        assert server.ask("POST", path, {"metadata": {"name": "later"}}).status == 404


def test_what_is_begun_while_a_namespace_ends_does_not_outlive_it(tmp_path: Path) -> None:
    async def storm(server: InProcess) -> None:
        async def create(number: int) -> None:
            info = RequestInfo.parse("POST", f"{NAMESPACES}/n/configmaps")
            body = b'{"metadata":{"name":"c-%d"}}' % number
            await server.server.write(info, headers={}, body=body)

        async def end() -> None:
            info = RequestInfo.parse("DELETE", f"{NAMESPACES}/n")
            await server.server.write(info, headers={}, body=b"")

        # The end is seen alone, while what was allowed with it is on its way.
        await asyncio.gather(end(), *map(create, range(300)))

    with InProcess(tmp_path) as server:
        make(server, NAMESPACES, {"metadata": {"name": "n"}})
        server.play(storm(server))
        server.until(lambda: not exists(server, f"{NAMESPACES}/n"))
        assert names(server) == []


def test_the_system_namespaces_are_there_and_stay() -> None:
    with InProcess() as server:
        system = ["default", "kube-node-lease", "kube-public", "kube-system"]
        assert names(server, NAMESPACES) == system
        assert server.ask("DELETE", f"{NAMESPACES}/kube-system").status == 403


# Definitions


def test_custom_resources_end_before_their_definition() -> None:
    with InProcess() as server:
        make(server, DEFINITIONS, definition())
        make(server, GADGETS, gadget("a", size=1))
        waiting = gadget("b", size=1)
        waiting["metadata"]["finalizers"] = ["example.com/wait"]
        make(server, GADGETS, waiting)
        told = server.ask("DELETE", f"{DEFINITIONS}/gadgets.example.com")
        assert "deletionTimestamp" in told.body["metadata"]
        server.until(lambda: names(server, GADGETS) == ["b"])
        assert server.ask("POST", GADGETS, gadget("late", size=1)).status == 405
        body = {"metadata": {"finalizers": None}}
        server.ask("PATCH", f"{GADGETS}/b", body, content_type=MERGE)
        server.until(lambda: not exists(server, f"{DEFINITIONS}/gadgets.example.com"))
        assert server.server.resource(ResourceName("example.com", "v1", "gadgets")) is None
        assert server.ask("POST", GADGETS, gadget("gone", size=1)).status == 404
        make(server, DEFINITIONS, definition())
        assert names(server, GADGETS) == []


def test_a_new_schema_prunes_and_defaults_what_is_there(tmp_path: Path) -> None:
    renewed: list[str] = []
    with InProcess(tmp_path) as server:
        made = make(server, DEFINITIONS, definition(version(old=STRING, kept=STRING)))
        before = make(server, GADGETS, gadget("g", old="o", kept="k"))
        server.server.on_renewal(lambda name: renewed.append(str(name)))
        made["spec"]["versions"] = [version(kept=STRING, new={"type": "string", "default": "n"})]
        assert server.ask("PUT", f"{DEFINITIONS}/gadgets.example.com", made).status == 200
        after = server.ask("GET", f"{GADGETS}/g").body
        assert after["spec"] == {"kept": "k", "new": "n"}
        assert after["metadata"] == before["metadata"]
        assert renewed == ["gadgets.v1.example.com"]
    with InProcess(tmp_path) as server:
        assert server.ask("GET", f"{GADGETS}/g").body == after


def test_versions_of_a_custom_resource_are_one_object(tmp_path: Path) -> None:
    both = definition(version("v1"), version("v2", storage=False))
    second = GADGETS.replace("/v1/", "/v2/")
    with InProcess(tmp_path) as server:
        make(server, DEFINITIONS, both)
        make(server, GADGETS, gadget("g", size=1))
        assert server.ask("GET", f"{second}/g").body["apiVersion"] == "example.com/v2"
        told = server.ask("PATCH", f"{second}/g", {"spec": {"size": 2}}, content_type=MERGE)
        assert told.body["apiVersion"] == "example.com/v2"
        found = server.ask("GET", f"{GADGETS}/g").body
        assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"size": 2})
        changed = server.ask("GET", f"{DEFINITIONS}/gadgets.example.com").body
        for each in changed["spec"]["versions"]:
            each["storage"] = each["name"] == "v2"
        told = server.ask("PUT", f"{DEFINITIONS}/gadgets.example.com", changed)
        assert told.body["status"]["storedVersions"] == ["v1", "v2"]
        assert server.ask("GET", f"{GADGETS}/g").body == found
    with InProcess(tmp_path) as server:
        assert server.ask("GET", f"{GADGETS}/g").body == found


def test_a_definition_whose_names_are_taken_is_not_served() -> None:
    with InProcess() as server:
        make(server, DEFINITIONS, definition())
        other = definition(names={"plural": "gizmos", "kind": "Gadget"})
        other["metadata"]["name"] = "gizmos.example.com"
        conditions = make(server, DEFINITIONS, other)["status"]["conditions"]
        assert {one["type"]: one["status"] for one in conditions} == {
            "NamesAccepted": "False",
            "Established": "False",
        }
        assert server.server.resource(ResourceName("example.com", "v1", "gizmos")) is None


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
    with InProcess() as server:
        told = server.ask("POST", DEFINITIONS, definition(**spec))
        assert told.status == 422
        assert [cause["field"] for cause in told.body["details"]["causes"]] == [field]


# Versions


def test_versions_are_one_growing_sequence_over_all_resources(tmp_path: Path) -> None:
    seen: list[int] = []
    for _ in range(3):
        with InProcess(tmp_path) as server:
            for number in range(3):
                name = f"c-{len(seen)}-{number}"
                made = make(server, CONFIG_MAPS, {"metadata": {"name": name}})
                seen.append(int(made["metadata"]["resourceVersion"]))
                made = make(server, LEASES, {"metadata": {"name": name}})
                seen.append(int(made["metadata"]["resourceVersion"]))
                # The end of an object has a version, too, that nobody else gets.
                server.ask("DELETE", f"{LEASES}/{name}")
    assert seen == sorted(set(seen))


def test_every_collection_stands_at_the_version_of_all() -> None:
    with InProcess() as server:
        make(server, CONFIG_MAPS, {"metadata": {"name": "c"}})
        made = make(server, LEASES, {"metadata": {"name": "l"}})
        found = server.collection(RequestInfo.parse("GET", CONFIG_MAPS))
        assert found.cursor == int(made["metadata"]["resourceVersion"])


def test_a_watch_goes_on_after_a_restart_but_not_after_the_machine_went_down(
    tmp_path: Path,
) -> None:
    info = RequestInfo.parse("GET", CONFIG_MAPS)
    with InProcess(tmp_path) as server:
        make(server, CONFIG_MAPS, {"metadata": {"name": "c"}})
        before = server.collection(info).cursor
    with InProcess(tmp_path) as server:
        assert server.collection(info).since(before) == []
    _pretend_another_boot(tmp_path)
    with InProcess(tmp_path) as server:
        with pytest.raises(Expired):
            server.collection(info).since(before)
        made = make(server, CONFIG_MAPS, {"metadata": {"name": "d"}})
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

    with InProcess() as server:
        server.server.subscribe(learn)
        make(server, CONFIG_MAPS, {"metadata": {"name": "c"}})
        make(server, LEASES, {"metadata": {"name": "l"}})
        server.ask("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}, content_type=MERGE)
        # Nothing changes, nothing is told.
        server.ask("PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}, content_type=MERGE)
        server.ask("PATCH", f"{CONFIG_MAPS}/c?dryRun=All", {"data": None}, content_type=MERGE)
        server.ask("DELETE", f"{CONFIG_MAPS}/c")
    assert [(plural, kind) for plural, kind, _ in seen] == [
        ("configmaps", EventType.ADDED),
        ("leases", EventType.ADDED),
        ("configmaps", EventType.MODIFIED),
        ("configmaps", EventType.DELETED),
    ]
    versions = [number for *_, number in seen]
    assert versions == sorted(set(versions))


def test_of_writers_at_one_version_one_wins(tmp_path: Path) -> None:
    async def race(server: InProcess, made: Json) -> list[int]:
        info = RequestInfo.parse("PUT", f"{LEASES}/l")

        async def take(holder: int) -> int:
            body = (
                b'{"metadata":{"name":"l","resourceVersion":"%s"},"spec":{"holderIdentity":"h%d"}}'
                % (made["metadata"]["resourceVersion"].encode(), holder)
            )
            return (await server.server.write(info, headers={}, body=body)).status

        return list(await asyncio.gather(*map(take, range(20))))

    with InProcess(tmp_path) as server:
        made = make(server, LEASES, {"metadata": {"name": "l"}})
        statuses = server.play(race(server, made))
        assert sorted(statuses) == [200] + [409] * 19


def test_generated_names_are_new_ones() -> None:
    with InProcess() as server:
        made = [make(server, CONFIG_MAPS, {"metadata": {"generateName": "c-"}}) for _ in range(5)]
        found = {one["metadata"]["name"] for one in made}
        assert len(found) == 5
        assert all(name.startswith("c-") and len(name) == 7 for name in found)


def test_a_pod_that_was_placed_ends_when_its_kubelet_says_so() -> None:
    pods = "/api/v1/namespaces/default/pods"
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    with InProcess() as server:
        make(server, "/api/v1/nodes", {"metadata": {"name": "n"}})
        for name, node in (("kept", "n"), ("lost", "nowhere")):
            make(server, pods, {"metadata": {"name": name}, "spec": {**spec, "nodeName": node}})
            told = server.ask("DELETE", f"{pods}/{name}")
            assert told.body["metadata"]["deletionGracePeriodSeconds"] == 30
        server.until(lambda: names(server, pods) == ["kept"])
        server.ask("DELETE", f"{pods}/kept?gracePeriodSeconds=0")
        assert names(server, pods) == []


def test_what_is_nested_too_deeply_is_refused_and_harms_nobody() -> None:
    with InProcess() as server:
        made = definition(version(any={"x-kubernetes-preserve-unknown-fields": True}))
        make(server, DEFINITIONS, made)
        for levels in (101, 900, 50_000):
            deep = '{"a":' * levels + "1" + "}" * levels
            body = json.dumps(gadget("g", any="DEEP")).replace('"DEEP"', deep)
            assert server.ask("POST", GADGETS, body).status == 400
        assert server.ask("POST", GADGETS, "[" * 100_000).status == 400
        make(server, GADGETS, gadget("g", any=1))
        operations: list[Json] = [{"op": "add", "path": "/spec/any", "value": {"a": {}}}]
        operations += [{"op": "copy", "from": "/spec/any", "path": "/spec/any/a"}] * 120
        told = server.ask("PATCH", f"{GADGETS}/g", operations, content_type=JSON_PATCH)
        assert told.status == 422
        assert server.ask("DELETE", f"{GADGETS}/g").status == 200


def test_a_scale_subresource_is_not_offered_and_that_is_said() -> None:
    paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    with InProcess() as server:
        scaled = definition({**version(), "subresources": {"scale": paths}})
        assert "scale: not offered" in server.ask("POST", DEFINITIONS, scaled).warning


# Restart and time


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with InProcess(tmp_path) as server:
        make(server, DEFINITIONS, definition())
        made = [
            make(server, CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}),
            make(server, LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "h"}}),
            make(server, GADGETS, gadget("g", size=3)),
        ]
        make(server, CONFIG_MAPS, {"metadata": {"name": "gone"}})
        server.ask("DELETE", f"{CONFIG_MAPS}/gone")
    with InProcess(tmp_path) as server:
        paths = (f"{CONFIG_MAPS}/c", f"{LEASES}/l", f"{GADGETS}/g")
        assert [server.ask("GET", path).body for path in paths] == made
        assert names(server) == ["c"]


def test_an_end_that_was_begun_is_finished_after_a_restart(tmp_path: Path) -> None:
    with InProcess(tmp_path, collects=False) as server:
        make(server, NAMESPACES, {"metadata": {"name": "n"}})
        make(server, f"{NAMESPACES}/n/configmaps", {"metadata": {"name": "a"}})
        owner = config_map(server, "owner")
        config_map(server, "child", owner)
        make(server, DEFINITIONS, definition())
        make(server, GADGETS, gadget("g", size=3))
        server.ask("DELETE", f"{CONFIG_MAPS}/owner")
        server.ask("DELETE", f"{NAMESPACES}/n")
        server.ask("DELETE", f"{DEFINITIONS}/gadgets.example.com")
        assert names(server) == ["child", "a"]
    with InProcess(tmp_path) as server:
        server.until(lambda: names(server) == [])
        server.until(lambda: not exists(server, f"{NAMESPACES}/n"))
        server.until(lambda: names(server, DEFINITIONS) == [])


def test_events_end_an_hour_after_they_were_written_last(tmp_path: Path) -> None:
    about = {"namespace": "default", "kind": "Pod", "name": "p"}
    with InProcess(tmp_path, collects=False) as server:
        for name in ("old", "renewed"):
            make(server, EVENTS, {"metadata": {"name": name}, "involvedObject": about})
        server.clock_ahead = 3000.0
        server.ask("PATCH", f"{EVENTS}/renewed", {"count": 2}, content_type=MERGE)
    with InProcess(tmp_path, clock_ahead=4000.0) as server:
        server.until(lambda: names(server, EVENTS) == ["renewed"])


def test_events_of_both_groups_are_the_same_objects() -> None:
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    with InProcess() as server:
        about = {"namespace": "default", "kind": "Pod", "name": "p"}
        make(server, EVENTS, {"metadata": {"name": "e"}, "involvedObject": about, "message": "m"})
        assert names(server, new) == ["e"]
        found = server.ask("GET", f"{new}/e").body
        assert (found["apiVersion"], found["regarding"], found["note"]) == (
            "events.k8s.io/v1",
            about,
            "m",
        )
        server.ask("DELETE", f"{new}/e")
        assert names(server, EVENTS) == names(server, new) == []


def test_a_selection_of_objects_is_deleted() -> None:
    with InProcess() as server:
        for number, label in itertools.product(range(3), ("a", "b")):
            meta = {"name": f"{label}{number}", "labels": {"x": label}}
            make(server, CONFIG_MAPS, {"metadata": meta})
        told = server.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=x%3Da&dryRun=All")
        assert len(told.body["items"]) == 3
        told = server.ask(
            "DELETE", f"{CONFIG_MAPS}?labelSelector=x%3Da&fieldSelector=metadata.name!%3Da0"
        )
        assert [item["metadata"]["name"] for item in told.body["items"]] == ["a1", "a2"]
        assert names(server) == ["a0", "b0", "b1", "b2"]
