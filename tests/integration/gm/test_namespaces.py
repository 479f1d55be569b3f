"""Which namespaces a GM looks after: those that it is told, each by itself."""

from tests.integration.gm.shop import Shop
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import GmPod


def test_jobs_of_each_namespace_that_is_named_are_looked_after_and_no_others(
    control_plane: ControlPlane, shop: Shop
) -> None:
    lab, strange = (
        Shop(control_plane, control_plane.create_namespace(name)) for name in ("lab", "strange")
    )
    for each in (shop, lab, strange):
        each.stock()
        each.federated("f1")
    with GmPod(control_plane, shop.namespace, flags=["--namespace", lab.namespace]) as pod:
        pod.wait_leading()
        for each in (shop, lab):
            each.wait_pods("f1", "f1-aggregation-0", "f1-train-0")
            # Each is followed, not listed once.
            each.dataset("d2")
            each.federated("f2", dataset="d2")
            each.wait_pods("f2", "f2-aggregation-0", "f2-train-0")
        assert strange.pods() == []
        # Through the relay, too, nothing but nodes is asked for in the whole cluster.
        wide = {it["resource"] for it in pod.relay.status()["streams"] if not it["namespace"]}
        assert wide == {"nodes.v1."}


def test_a_job_in_kube_system_gets_no_workers_and_says_so(
    control_plane: ControlPlane, shop: Shop
) -> None:
    system = Shop(control_plane, "kube-system")
    with GmPod(control_plane, shop.namespace, is_confined=False) as pod:
        pod.wait_leading()
        system.stock()
        system.federated("f1")
        try:
            status = system.wait_status("fl", "f1", lambda it: it.get("conditions"))
            assert status["conditions"][-1]["type"] == "Failed"
            assert "--allow-kube-system" in status["conditions"][-1]["message"]
            assert system.pods("f1") == []
        finally:
            for kind, name in (
                ("fl", "f1"),
                ("dataset", "d1"),
                ("model", "base"),
                ("model", "prod"),
            ):
                system.delete(kind, name)
