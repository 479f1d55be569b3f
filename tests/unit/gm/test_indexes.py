"""Children by owner, waiting reports by object, and states by the last condition."""

from typing import Any

from edge_sidecars.sedna_api.core.node_report import NodeReport
from edge_sidecars.sedna_api.core.report import Report
from gm.cache.indexes import ChildIndex, NodeReportIndex, StateCounts
from tests.unit.gm.documents import NAMESPACE, document

# ── children ──


def pod(name: str, owner: str, *, is_controller: bool = True, version: int = 1) -> Any:
    references = [
        {"uid": "another", "controller": False},
        {"uid": owner, "controller": is_controller},
    ]
    return document("pod", name, version=version, metadata={"ownerReferences": references})


def test_children_are_found_by_their_controllers_uid() -> None:
    touched: list[str] = []
    children = ChildIndex(touched.append)
    children.changed(None, pod("b", "u1"))
    children.changed(None, pod("a", "u1"))
    children.changed(None, pod("c", "u2"))
    assert [child["metadata"]["name"] for child in children.of("u1")] == ["a", "b"]
    assert children.of("another") == ()
    assert touched == ["u1", "u1", "u2"]


def test_a_child_that_changes_hands_or_goes_is_told_to_both_owners() -> None:
    touched: list[str] = []
    children = ChildIndex(touched.append)
    first = pod("a", "u1")
    children.changed(None, first)
    second = pod("a", "u2", version=2)
    children.changed(first, second)
    assert children.of("u1") == ()
    assert set(touched[1:]) == {"u1", "u2"}
    children.changed(second, None)
    assert children.of("u2") == ()


def test_a_pod_that_nobody_controls_is_nobodys_child() -> None:
    touched: list[str] = []
    children = ChildIndex(touched.append)
    children.changed(None, pod("a", "u1", is_controller=False))
    children.changed(None, document("pod", "b"))
    assert touched == []


# ── reports ──


def report(uid: str, seq: int, *, previous: int = 0, is_event: bool = True) -> Report:
    return Report(
        store_id="s1",
        seq=seq,
        uid=uid,
        kind="dataset",
        namespace=NAMESPACE,
        name=f"name-{uid}",
        is_event=is_event,
        worker="w",
        body=b'{"numberOfSamples":1}',
        previous=previous,
    )


def node_report(node: str, *reports: Report, version: int) -> Any:
    it, _ = NodeReport.new(NAMESPACE, node, "s1", epoch=1).stored(reports)
    tree = it.to_json()
    content = {key: tree[key] for key in tree.keys() - {"metadata", "kind"}}
    return document("nodereport", node, version=version, **content)


def test_reports_wait_for_their_object_by_node() -> None:
    touched: list[str] = []
    reports = NodeReportIndex(touched.append)
    reports.changed(None, node_report("n1", report("u1", 1), report("u2", 1), version=1))
    reports.changed(None, node_report("n2", report("u1", 1), version=2))
    assert {node: len(found) for node, found in reports.pending("u1").items()} == {"n1": 1, "n2": 1}
    assert reports.pending("u3") == {}
    assert touched == ["u1", "u2", "u1"]
    assert reports.backlog == 3


def test_only_objects_about_which_something_new_was_said_are_touched() -> None:
    touched: list[str] = []
    reports = NodeReportIndex(touched.append)
    before = node_report("n1", report("u1", 1), report("u2", 1), version=1)
    after = node_report("n1", report("u1", 1), report("u2", 1), report("u2", 2), version=2)
    reports.changed(None, before)
    touched.clear()
    reports.changed(before, after)
    assert touched == ["u2"]


def test_what_was_pruned_waits_no_more() -> None:
    touched: list[str] = []
    reports = NodeReportIndex(touched.append)
    before = node_report("n1", report("u1", 1), version=1)
    reports.changed(None, before)
    touched.clear()
    reports.changed(before, node_report("n1", version=2))
    assert reports.pending("u1") == {}
    assert touched == []
    assert reports.backlog == 0


def test_a_node_report_that_cannot_be_read_is_as_if_it_were_not_there() -> None:
    reports = NodeReportIndex(lambda uid: None)
    before = node_report("n1", report("u1", 1), version=1)
    reports.changed(None, before)
    reports.changed(before, document("nodereport", "n1", version=2, node=7))
    assert reports.get(NAMESPACE, "n1") is None
    assert reports.pending("u1") == {}


# ── states ──


def test_objects_are_counted_by_their_last_condition() -> None:
    state_counts = StateCounts()
    conditions = [{"type": "Completed", "stage": "Train"}, {"type": "Waiting", "stage": "Eval"}]
    job = document("incrementallearningjob", "j", status={"conditions": conditions})
    state_counts.changed(None, job)
    state_counts.changed(None, document("dataset", "d"))
    state_counts.changed(None, document("dataset", "e", status={"conditions": "none"}))
    assert state_counts.counts() == {
        ("incrementallearningjob", "Eval Waiting"): 1,
        ("dataset", "-"): 2,
    }
    state_counts.changed(job, None)
    assert ("incrementallearningjob", "Eval Waiting") not in state_counts.counts()
