"""What becomes of objects in the server: their end, their owners, their versions, a restart."""

import asyncio
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
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACES = "/api/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/example.com/v1/namespaces/default/gadgets"


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
