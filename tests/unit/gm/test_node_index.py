"""Which nodes hear of which object: with its references, with Models, and when it moves."""

from dataclasses import dataclass, field
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from gm.cache.informers import Informers
from tests.unit.gm.documents import NAMESPACE, document


@dataclass
class NodeListener:
    """What a hub would be told, in order."""

    told: list[tuple[str, str, str]] = field(default_factory=list)
    known: dict[tuple[str, ObjectKey], Document] = field(default_factory=dict)

    def concerns(self, node: str, document: Document) -> None:
        self.told.append(("concerns", node, document.name))
        self.known[node, document.key] = document

    def leaves(self, node: str, document: Document) -> None:
        self.told.append(("leaves", node, document.name))
        del self.known[node, document.key]

    def moved(self) -> None:
        """Versions are asked for."""


class World:
    def __init__(self) -> None:
        self.informers = Informers(lambda: True)
        self.listener = NodeListener()
        self.touched: list[str] = []
        self.informers.subscribe(self.listener)
        self.informers.watch(lambda key: self.touched.append(key.name))
        self._version = 0

    def put(self, kind: str, name: str, *, generation: int = 1, **fields: Any) -> Document:
        self._version += 1
        it = document(kind, name, version=self._version, generation=generation, **fields)
        self.informers.collections[kind].sources[""].changed(it)
        self.agree()
        return it

    def drop(self, it: Document) -> None:
        self._version += 1
        last = document(it.kind, it.name, version=self._version, uid=it.uid)
        self.informers.collections[it.kind].sources[""].deleted(last)
        self.agree()

    def agree(self) -> None:
        """What was told and what would be told to a new stream are the same."""
        nodes = {node for node, _ in self.listener.known} | {"a", "b", "c"}
        for node in nodes:
            told = {key: it for (at, key), it in self.listener.known.items() if at == node}
            found = {it.key: it for it in self.informers.node_documents(node)}
            assert told == found

    def at(self, node: str) -> set[str]:
        return {key.name for at, key in self.listener.known if at == node}


def dataset(node: str) -> dict[str, Any]:
    return {"url": "/d.txt", "format": "txt", "nodeName": node}


def template(node: str) -> dict[str, Any]:
    return {"spec": {"nodeName": node, "containers": [{"name": "w", "image": "i"}]}}


def job(*, data: str = "d", model: str = "prod", node: str = "a") -> dict[str, Any]:
    """An incremental one."""
    trigger = {"condition": {"operator": ">", "threshold": 1, "metric": "num_of_samples"}}
    return {
        "dataset": {"name": data, "trainProb": 0.8},
        "initialModel": {"name": "base"},
        "outputDir": "/out",
        "trainSpec": {"template": template(node), "trigger": trigger},
        "evalSpec": {"template": template(node)},
        "deploySpec": {"model": {"name": model}, "trigger": trigger, "template": template(node)},
    }


def test_a_dataset_concerns_its_node_and_moves_with_it() -> None:
    world = World()
    it = world.put("dataset", "d", spec=dataset("a"))
    world.put("dataset", "d", uid=it.uid, generation=2, spec=dataset("b"))
    assert world.at("a") == set()
    assert world.at("b") == {"d"}


def test_a_model_is_told_before_the_first_job_that_hands_it_out() -> None:
    world = World()
    world.put("model", "base", spec={"url": "/b", "format": "pb"})
    world.put("model", "prod", spec={"url": "/p", "format": "pb"})
    assert world.listener.told == []
    world.put("incrementallearningjob", "j", spec=job())
    assert [name for _, _, name in world.listener.told][-1] == "j"
    assert world.at("a") == {"base", "prod", "j"}


def test_a_model_that_comes_later_is_told_to_the_nodes_of_its_jobs() -> None:
    world = World()
    world.put("incrementallearningjob", "j", spec=job())
    world.put("model", "prod", spec={"url": "/p", "format": "pb"})
    assert world.at("a") == {"prod", "j"}


def test_a_model_leaves_with_the_last_job_that_hands_it_out() -> None:
    world = World()
    model = world.put("model", "prod", spec={"url": "/p", "format": "pb"})
    first = world.put("incrementallearningjob", "j1", spec=job())
    second = world.put("incrementallearningjob", "j2", spec=job())
    world.drop(first)
    assert world.at("a") == {"prod", "j2"}
    world.touched.clear()
    world.drop(second)
    assert world.at("a") == set()
    assert world.informers.node_index.concerned(model.key) == frozenset()
    assert "prod" in world.touched


def test_a_job_concerns_the_node_of_its_dataset_wherever_that_goes() -> None:
    world = World()
    it = world.put("dataset", "d", spec=dataset("b"))
    world.put("incrementallearningjob", "j", spec=job(node="a"))
    assert "j" in world.at("b")
    world.put("dataset", "d", uid=it.uid, generation=2, spec=dataset("c"))
    assert world.at("b") == set()
    assert {"j", "d"} <= world.at("c")
    assert "j" in world.at("a")


def test_what_refers_to_something_is_decided_anew_when_that_comes_changes_or_goes() -> None:
    world = World()
    world.put("incrementallearningjob", "j", spec=job())
    world.touched.clear()
    it = world.put("dataset", "d", spec=dataset("a"))
    assert "j" in world.touched
    world.touched.clear()
    world.put("dataset", "d", uid=it.uid, spec=dataset("a"), status={"numberOfSamples": 7})
    assert world.touched == ["d"]
    world.put("dataset", "d", uid=it.uid, generation=2, spec=dataset("a"))
    assert "j" in world.touched
    world.touched.clear()
    world.drop(it)
    assert "j" in world.touched


def test_a_status_is_told_where_the_object_is_known_already() -> None:
    world = World()
    world.put("model", "prod", spec={"url": "/p", "format": "pb"})
    world.put("dataset", "d", spec=dataset("b"))
    it = world.put("incrementallearningjob", "j", spec=job())
    told = len(world.listener.told)
    after = world.put(
        "incrementallearningjob", "j", uid=it.uid, spec=job(), status={"conditions": []}
    )
    assert sorted(world.listener.told[told:]) == [("concerns", "a", "j"), ("concerns", "b", "j")]
    assert world.listener.known["a", it.key] == after


def test_an_annotation_moves_an_object_though_its_spec_is_the_same() -> None:
    world = World()
    it = world.put("incrementallearningjob", "j", spec=job())
    world.put(
        "incrementallearningjob",
        "j",
        uid=it.uid,
        spec=job(),
        metadata={"annotations": {"sedna.io/Train": "c"}},
    )
    assert world.at("c") == {"j"}
    world.put("incrementallearningjob", "j", uid=it.uid, spec=job())
    assert world.at("c") == set()


def test_another_spec_moves_an_object_whatever_its_generation_says() -> None:
    """As after a backup was restored."""
    world = World()
    it = world.put("dataset", "d", spec=dataset("a"))
    world.put("dataset", "d", uid=it.uid, spec=dataset("b"))
    assert (world.at("a"), world.at("b")) == (set(), {"d"})


def test_a_node_that_comes_touches_what_names_it_and_its_heartbeats_nothing() -> None:
    world = World()
    world.put("dataset", "d", spec=dataset("a"))
    world.touched.clear()
    world.put("node", "a", namespace="")
    assert world.touched == ["d"]
    world.put("node", "a", namespace="")
    assert world.touched == ["d"]


def test_an_object_that_makes_no_sense_concerns_nobody_and_stops_nothing() -> None:
    world = World()
    world.put("incrementallearningjob", "odd", spec="none")
    world.put("dataset", "odd", spec={"nodeName": ["a"]})
    world.put("dataset", "d", spec=dataset("a"))
    assert world.at("a") == {"d"}


def test_objects_are_found_by_uid_and_by_name() -> None:
    world = World()
    it = world.put("dataset", "d", spec=dataset("a"))
    key = ObjectKey("dataset", NAMESPACE, "d")
    assert world.informers.named(it.uid) == key
    assert world.informers.get(key) == it
    world.drop(it)
    assert world.informers.named(it.uid) is None
    assert world.informers.reference(key) is None


def test_it_is_synced_when_the_last_collection_was_listed() -> None:
    informers = Informers(lambda: True)
    *others, last = informers.collections.values()
    for collection in others:
        collection.sources[""].replaced([], 1)
    assert not informers.is_synced
    assert informers.missing == (last.kind,)
    last.sources[""].replaced([], 1)
    assert informers.is_synced
