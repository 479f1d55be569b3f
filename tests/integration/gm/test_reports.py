"""Reports of nodes count once and in order, whoever takes them in (G3, G5, G7)."""

import json
from typing import Any

import pytest

from edge_sidecars.sedna_api.core.kinds import NODE_REPORT
from edge_sidecars.sedna_api.core.messages import Ack, ReportRefused
from tests.integration.gm.node_stream import NodeStream
from tests.integration.gm.shop import Shop
from tests.integration.gm.test_high_availability import leader_of, pods
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import GmPod


def samples(count: int) -> bytes:
    return json.dumps({"numberOfSamples": count}).encode()


def node_report(shop: Shop, node: str) -> dict[str, Any]:
    return expect(shop.plane.admin.get(NODE_REPORT.path(shop.namespace, node)))


def counted(shop: Shop, name: str, count: int) -> None:
    shop.wait_status("dataset", name, lambda it: it.get("numberOfSamples") == count)


def test_g3_a_report_is_acknowledged_when_it_stands_in_a_node_report_and_counts_once(
    control_plane: ControlPlane, shop: Shop
) -> None:
    dataset = shop.dataset("d1")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            answer = node.answer(node.report(dataset, samples(12), seq=1))
            assert isinstance(answer, Ack)
            report = node_report(shop, "edge-a")
            (entry,) = report["entries"]
            assert (entry["name"], entry["seq"]) == ("d1", 1)
            counted(shop, "d1", 12)
            (applied,) = shop.get("dataset", "d1")["status"]["appliedReports"]
            assert (applied["storeID"], applied["seq"]) == (node.store_id, 1)
            # The same again, and an older one: nothing changes.
            node.answer(node.report(dataset, samples(30), seq=2, previous=1))
            counted(shop, "d1", 30)
            assert isinstance(node.answer(node.report(dataset, samples(12), seq=1)), Ack)
            assert shop.get("dataset", "d1")["status"]["numberOfSamples"] == 30


@pytest.mark.long
@pytest.mark.slow
def test_what_was_taken_in_leaves_the_node_report_though_nothing_new_comes(
    control_plane: ControlPlane, shop: Shop
) -> None:
    dataset, other = shop.dataset("d1"), shop.dataset("d2")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            for it in (dataset, other):
                node.answer(node.report(it, samples(12), seq=1))
        counted(shop, "d1", 12)
        shop.delete("dataset", "d2")

        def left() -> dict[str, list[Any]]:
            entries = node_report(shop, "edge-a")["entries"]
            return {it["name"]: it.get("reports", []) for it in entries}

        shop.wait(left, lambda it: it == {"d1": []}, what="a NodeReport without reports")


def test_g7_a_report_about_another_nodes_object_is_refused(
    control_plane: ControlPlane, shop: Shop
) -> None:
    mine, theirs = shop.dataset("mine"), shop.dataset("theirs", node="edge-b")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            answer = node.answer(node.report(theirs, samples(5), seq=1))
            assert isinstance(answer, ReportRefused)
            assert "does not concern node edge-a" in answer.reason
            assert isinstance(node.answer(node.report(mine, samples(7), seq=1)), Ack)
            counted(shop, "mine", 7)
            assert "numberOfSamples" not in shop.get("dataset", "theirs").get("status", {})
        status = pod.gm.status()
        assert status["reports"]["refused"] == 1
        assert "theirs" in status["reports"]["lastRefusal"]


def test_g5_a_report_is_refused_for_good_only_when_its_object_is_gone(
    control_plane: ControlPlane, shop: Shop
) -> None:
    gone, reborn = shop.dataset("gone"), shop.dataset("reborn")
    shop.delete("dataset", "gone")
    shop.delete("dataset", "reborn")
    shop.dataset("reborn")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            for dataset in (gone, reborn):
                answer = node.answer(node.report(dataset, samples(5), seq=1))
                assert isinstance(answer, ReportRefused)
                assert "is gone" in answer.reason
            # One that this GM has not heard of yet is asked about.
            pod.link.delay_response(0.3)
            young = shop.dataset("young")
            assert isinstance(node.answer(node.report(young, samples(3), seq=1)), Ack)
            counted(shop, "young", 3)


def test_a_malformed_report_is_refused_and_holds_up_nobody(
    control_plane: ControlPlane, shop: Shop
) -> None:
    dataset = shop.dataset("d1")
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        with NodeStream(pod.gm.stream_port, "edge-a") as node:
            assert isinstance(node.answer(node.report(dataset, b"[1]", seq=1)), ReportRefused)
            assert isinstance(node.answer(node.report(dataset, samples(3), seq=2)), Ack)
            counted(shop, "d1", 3)


def test_g3_two_gms_take_reports_of_one_node_and_none_is_lost(
    control_plane: ControlPlane, shop: Shop
) -> None:
    """One stream in the half-open, the other new: both GMs write one NodeReport."""
    datasets = [shop.dataset(f"d{index}") for index in range(40)]
    with pods(control_plane, shop.namespace, 2, "active-active") as found:
        leader_of(found)
        one, two = (it.gm.stream_port for it in found)
        with NodeStream(one, "edge-a") as first, NodeStream(two, "edge-a") as second:
            asked = []
            for index, dataset in enumerate(datasets):
                node = first if index % 2 else second
                asked.append((node, node.report(dataset, samples(index), seq=1)))
            for node, report in asked:
                assert isinstance(node.answer(report), Ack)
        for index in range(len(datasets)):
            counted(shop, f"d{index}", index)
