"""Mode relay: objects through a real relay, reports in a real NodeReport, whatever breaks."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_sidecars.sedna_api.core.capability import WORKER_KEY, capability, key_for
from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    FEDERATED_LEARNING_JOB,
    MODEL,
    NODE_REPORT,
    node_label,
)
from edge_sidecars.sedna_api.core.stored_report import AppliedReport, applied_json
from tests.integration.lc.edge import Cloud, Edge
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.schemas.sedna_kinds import install

NODE = "edge-a"


@pytest.fixture
def cloud(control_plane: ControlPlane, namespace: str) -> Cloud:
    install(control_plane)
    return Cloud(control_plane, namespace)


@pytest.fixture
def edge(control_plane: ControlPlane, cloud: Cloud) -> Iterator[Edge]:
    with Edge(control_plane, node=NODE, namespace=cloud.namespace) as it:
        yield it
        assert "Traceback" not in it.lc.log_text(all_lives=True)


def job(cloud: Cloud, name: str, *, node: str = NODE) -> str:
    """A federated job that GM has labelled for a node; its uid."""
    template = {"spec": {"containers": [{"name": "w", "image": "example.com/w:1"}]}}
    spec = {
        "aggregationWorker": {"model": {"name": "m"}, "template": template},
        "trainingWorkers": [{"dataset": {"name": "a"}, "template": template}],
        "transmitter": {"ws": {}},
    }
    found = cloud.create(FEDERATED_LEARNING_JOB, name, spec, labels={node_label(node): ""})
    return str(found["metadata"]["uid"])


def say(edge: Edge, name: str, worker: str, count: int) -> None:
    told = {"ownerName": name, "ownerKind": "federatedlearningjob", "kind": "train"}
    told |= {"namespace": edge.lc.ask("/sedna/objects").json()["objects"][0]["namespace"]}
    answer = edge.lc.report(worker, {**told, "ownerInfo": {"currentRound": count}})
    assert answer is not None
    assert answer.status == 200, answer.body


def test_a_dataset_is_counted_and_its_report_stands_in_the_node_report(
    edge: Edge, cloud: Cloud
) -> None:
    edge.lc.write("/srv/a.txt", "1\n2\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    other = cloud.dataset("b", "/srv/a.txt", node="edge-b")["metadata"]["uid"]
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 2}])
    edge.lc.until(lambda status: status["reports"]["waiting"] == 0)
    edge.knows("a")
    report = cloud.report(NODE)
    assert report is not None
    assert report.store_id == edge.lc.status()["store"]["id"]
    assert other not in report.entries
    edge.lc.write("/srv/a.txt", "1\n")
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 1}])


def test_edits_leaving_and_deletion_take_effect(edge: Edge, cloud: Cloud) -> None:
    edge.lc.write("/srv/a.txt", "x\n1\n2\n")
    uid = cloud.dataset("a", "/srv/missing.txt", node=NODE)["metadata"]["uid"]
    cloud.until(lambda: "does not exist" in str(cloud.bodies(NODE, uid)))
    cloud.edit(DATASET, "a", {"spec": {"url": "/srv/a.txt"}})
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 3}])
    cloud.edit(DATASET, "a", {"spec": {"format": "csv"}})
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 2}])
    cloud.edit(DATASET, "a", {"spec": {"nodeName": "edge-b"}})
    edge.knows()
    cloud.edit(DATASET, "a", {"spec": {"nodeName": NODE}})
    edge.knows("a")
    cloud.delete(DATASET, "a")
    edge.knows()


def test_what_gm_has_labelled_comes_and_goes_with_the_label(edge: Edge, cloud: Cloud) -> None:
    cloud.create(MODEL, "m", {"url": "/srv/m.pb", "format": "pb"}, labels={node_label(NODE): ""})
    job(cloud, "job")
    job(cloud, "strange", node="edge-b")
    edge.knows("m", "job")
    cloud.edit(MODEL, "m", {"metadata": {"labels": {node_label(NODE): None}}})
    edge.knows("job")


def test_cut_off_it_works_on_and_everything_arrives_when_the_link_is_back(
    edge: Edge, cloud: Cloud
) -> None:
    edge.lc.write("/srv/a.txt", "1\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    edge.lc.write("/srv/gone.txt", "1\n")
    gone = cloud.dataset("gone", "/srv/gone.txt", node=NODE)["metadata"]["uid"]
    owner = job(cloud, "job")
    edge.knows("a", "gone", "job")
    cloud.until(lambda: cloud.bodies(NODE, uid) and cloud.bodies(NODE, gone))
    # LC hears of it a moment later.
    edge.lc.until(lambda status: status["reports"]["waiting"] == 0)
    edge.place.cut()
    cloud.delete(DATASET, "gone")
    say(edge, "job", "train-0", 1)
    edge.lc.write("/srv/a.txt", "1\n2\n")
    edge.lc.until(lambda status: not status["link"]["isUp"])
    edge.lc.until(lambda status: status["reports"]["waiting"] == 2)
    # Restarted while cut off: the same, in a moment.
    edge.lc.kill()
    edge.lc.start()
    status = edge.lc.status()
    assert {it["name"] for it in status["objects"]} == {"a", "gone", "job"}
    assert status["reports"]["waiting"] == 2
    say(edge, "job", "train-0", 2)
    edge.place.heal()
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 2}])
    cloud.until(lambda: _rounds(cloud, owner) == [2])
    edge.knows("a", "job")
    edge.lc.until(lambda status: status["link"]["isUp"])


def _rounds(cloud: Cloud, uid: str) -> list[int]:
    return [each["output"]["ownerInfo"]["currentRound"] for each in cloud.bodies(NODE, uid)]


def test_without_its_relay_it_is_there_after_a_restart(edge: Edge, cloud: Cloud) -> None:
    edge.lc.write("/srv/a.txt", "1\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    # On the disk together with how far it was counted.
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 1}])
    edge.place.relay.kill()
    edge.lc.kill()
    edge.lc.start()
    assert edge.lc.notes() == {"dataset a": "1 samples"}
    assert (
        "does not answer" in edge.lc.until(lambda it: "asked yet" not in str(it))["link"]["problem"]
    )
    edge.lc.write("/srv/a.txt", "1\n2\n")
    edge.lc.until(lambda status: "2 samples" in str(status["objects"]))
    edge.place.relay.start()
    edge.lc.until(lambda status: status["link"]["isUp"])
    edge.lc.until(lambda status: status["reports"]["waiting"] == 0)


def test_kill_9_of_lc_and_relay_loses_no_report_and_doubles_none(edge: Edge, cloud: Cloud) -> None:
    owner = job(cloud, "job")
    edge.knows("job")
    for count in range(1, 13):
        say(edge, "job", "train-0", count)
        if count % 4 == 0:
            edge.lc.kill()
            edge.lc.start()
        if count % 6 == 0:
            edge.place.relay.kill()
            edge.place.relay.start()
    cloud.until(lambda: _rounds(cloud, owner) == [12])
    report = cloud.report(NODE)
    assert report is not None
    assert report.entries[owner].seq == 12


def test_what_an_object_has_taken_in_is_pruned_and_not_said_again(edge: Edge, cloud: Cloud) -> None:
    place = edge.lc.write("/srv/a.txt", "1\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    cloud.until(lambda: cloud.bodies(NODE, uid))
    report = cloud.report(NODE)
    assert report is not None
    [stored] = report.pending(uid)
    applied = applied_json({NODE: AppliedReport.of(NODE, stored)})
    cloud.set_status(DATASET, "a", {"numberOfSamples": 1, "appliedReports": applied})
    cloud.until(lambda: not cloud.bodies(NODE, uid))
    pruned = cloud.report(NODE)
    assert pruned is not None
    assert pruned.entries[uid].seq == stored.seq
    edge.lc.kill()
    edge.lc.start()
    edge.lc.until(lambda status: status["link"]["isUp"])
    # A file that is written anew is empty for a moment, which is another count.
    with place.open("a", encoding="utf-8") as file:
        file.write("2\n")
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 2}])
    grown = cloud.report(NODE)
    assert grown is not None
    assert grown.entries[uid].seq == stored.seq + 1


def test_entries_of_objects_that_are_gone_go_and_those_of_objects_that_left_stay(
    edge: Edge, cloud: Cloud
) -> None:
    edge.lc.write("/srv/a.txt", "1\n")
    gone = cloud.dataset("gone", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    left = cloud.dataset("left", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    anew = cloud.dataset("anew", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    cloud.until(lambda: all(cloud.bodies(NODE, uid) for uid in (gone, left, anew)))
    edge.lc.kill()
    cloud.delete(DATASET, "gone")
    cloud.edit(DATASET, "left", {"spec": {"nodeName": "edge-b"}})
    cloud.delete(DATASET, "anew")
    second = cloud.dataset("anew", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    edge.lc.start()
    cloud.until(lambda: _entries(cloud) == {left, second})


def _entries(cloud: Cloud) -> set[str]:
    report = cloud.report(NODE)
    return set() if report is None else set(report.entries)


def test_a_node_report_that_was_deleted_is_made_anew_above_the_old_one(
    edge: Edge, cloud: Cloud
) -> None:
    edge.lc.write("/srv/a.txt", "1\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    cloud.until(lambda: cloud.bodies(NODE, uid))
    before = cloud.report(NODE)
    assert before is not None
    cloud.delete(NODE_REPORT, NODE)
    time.sleep(1.1)  # an epoch is a second at least
    edge.lc.write("/srv/a.txt", "1\n2\n")
    cloud.until(lambda: cloud.bodies(NODE, uid) == [{"numberOfSamples": 2}])
    after = cloud.report(NODE)
    assert after is not None
    assert after.epoch > before.epoch
    [stored] = after.pending(uid)
    [earlier] = before.pending(uid)
    assert (stored.epoch, stored.seq) > (earlier.epoch, earlier.seq)


def test_a_store_that_was_lost_begins_anew_and_its_reports_count(edge: Edge, cloud: Cloud) -> None:
    edge.lc.write("/srv/a.txt", "1\n")
    uid = cloud.dataset("a", "/srv/a.txt", node=NODE)["metadata"]["uid"]
    cloud.until(lambda: cloud.bodies(NODE, uid))
    before = cloud.report(NODE)
    assert before is not None
    edge.lc.kill()
    old = {path.name: path.read_bytes() for path in edge.lc.data_dir.iterdir() if path.is_file()}
    for name in old:
        (edge.lc.data_dir / name).unlink()
    edge.lc.write("/srv/a.txt", "1\n2\n")
    edge.lc.start()
    cloud.until(lambda: {"numberOfSamples": 2} in cloud.bodies(NODE, uid))
    after = cloud.report(NODE)
    assert after is not None
    assert after.retired == (before.store_id,)
    assert after.epoch == before.epoch + 1
    # The old disk comes back: what it says is taken under a new id.
    edge.lc.kill()
    for name, content in old.items():
        (edge.lc.data_dir / name).write_bytes(content)
    edge.lc.write("/srv/a.txt", "1\n2\n3\n")
    edge.lc.start()
    cloud.until(lambda: {"numberOfSamples": 3} in cloud.bodies(NODE, uid))
    last = cloud.report(NODE)
    assert last is not None
    assert last.retired == (before.store_id, after.store_id)
    edge.lc.until(lambda status: status["reports"]["waiting"] == 0)


def test_a_namespace_that_ends_keeps_no_other_waiting(control_plane: ControlPlane) -> None:
    install(control_plane)
    ending, other = (Cloud(control_plane, control_plane.create_namespace()) for _ in range(2))
    node = "edge-of-two"
    with Edge(control_plane, node=node, namespace="") as edge:
        job(ending, "ending", node=node)
        job(ending, "stays", node=node)
        uid = job(other, "other", node=node)
        edge.knows("ending", "stays", "other")
        edge.place.cut()
        for cloud, name in ((ending, "ending"), (ending, "stays"), (other, "other")):
            told = {"ownerName": name, "ownerKind": "federatedlearningjob", "kind": "train"}
            answer = edge.lc.report("w", {**told, "namespace": cloud.namespace})
            assert answer is not None
            assert answer.status == 200
        ending.delete(FEDERATED_LEARNING_JOB, "ending")
        ending.delete_namespace()
        edge.place.heal()
        other.until(lambda: other.bodies(node, uid))
        # Of what is gone for good; what stands still may yet be reported.
        edge.lc.until(lambda status: status["reports"]["refused"] == 1)
        status = edge.lc.until(lambda status: status["reports"]["waiting"] == 1)
        [refusal] = status["reports"]["refusals"]
        assert (refusal["name"], refusal["reason"]) == ("ending", "its object is gone")
        assert "REFUSED  federatedlearningjob" in edge.lc.command("status").stdout


def test_mode_relay_carries_no_grpc(edge: Edge) -> None:
    maps = Path(f"/proc/{edge.lc.pid}/maps").read_text()
    assert "grpc" not in maps
    assert "_sqlite3" in maps


def test_a_worker_is_known_by_its_capability_cut_off_and_after_a_restart_too(
    control_plane: ControlPlane, cloud: Cloud
) -> None:
    """Its key comes through the relay, with the object."""
    flags = ["--trust-any-worker=false"]
    key = "0f" * 16
    with Edge(control_plane, node=NODE, namespace=cloud.namespace, flags=flags) as edge:
        uid = job(cloud, "job")
        other = job(cloud, "other")
        edge.knows("job", "other")
        own = below(uid, "train-0", key)
        assert answered(edge, cloud, "train-0", own) == 503  # GM has not given a key yet
        for name, of in (("job", uid), ("other", other)):
            given = {WORKER_KEY: key_for(of, key)}
            cloud.edit(FEDERATED_LEARNING_JOB, name, {"metadata": {"annotations": given}})
        cloud.until(lambda: answered(edge, cloud, "train-0", own) == 200)
        strangers = [
            "",
            "/w/x",
            below(uid, "train-1", key),
            below(other, "train-0", key),
            below(uid, "train-0", "f0" * 16),
            below(uid, "train-0", key, node="edge-b"),
        ]
        assert {answered(edge, cloud, "train-0", it) for it in strangers} == {403}
        cloud.until(lambda: len(cloud.bodies(NODE, uid)) == 1)
        edge.place.cut()
        edge.lc.until(lambda status: not status["link"]["isUp"])
        edge.lc.kill()
        edge.lc.start()
        assert {answered(edge, cloud, "train-0", it) for it in strangers} == {403}
        assert answered(edge, cloud, "train-0", own, count=2) == 200
        edge.place.heal()
        cloud.until(lambda: _rounds(cloud, uid) == [2])
        assert cloud.bodies(NODE, other) == []


def below(uid: str, worker: str, key: str, *, node: str = NODE) -> str:
    return f"/w/{capability(key, uid=uid, worker=worker, node=node)}"


def answered(edge: Edge, cloud: Cloud, worker: str, path: str, *, count: int = 1) -> int:
    """What LC answers to a worker of `job`, with a path below that of LC."""
    told = {"ownerName": "job", "ownerKind": "federatedlearningjob", "kind": "train"}
    told |= {"namespace": cloud.namespace}
    answer = edge.lc.report(worker, {**told, "ownerInfo": {"currentRound": count}}, below=path)
    assert answer is not None
    return answer.status
