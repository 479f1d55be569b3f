"""A Secret that is made after what names it: found by looks at it alone, few and soon."""

import time

import pytest

from tests.integration.gm.shop import Shop
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.gm import GmPod

JOBS = 10
# Seconds: a look comes 1 s after the last job that named it, at most 30 s after any.
SOON = 5.0


def add_secret(shop: Shop, name: str) -> None:
    path = f"/api/v1/namespaces/{shop.namespace}/secrets"
    expect(shop.plane.admin.post(path, {"metadata": {"name": name}, "stringData": {"a": "b"}}))


@pytest.mark.long
def test_jobs_go_on_when_the_secret_that_they_miss_is_made(
    control_plane: ControlPlane, shop: Shop
) -> None:
    shop.dataset("d1")
    spec = {"url": "s3://bucket/m.pb", "format": "pb", "credentialName": "late"}
    began = time.time()
    with GmPod(control_plane, shop.namespace) as pod:
        pod.wait_leading()
        shop.create("model", "base", spec)
        names = [f"f{index}" for index in range(JOBS)]
        for name in names:
            shop.federated(name)
        for name in names:
            shop.wait_status(
                "fl", name, lambda it: it.get("conditions", [{}])[-1].get("type") == "Failed"
            )
        assert shop.pods() == []
        time.sleep(1.0)
        add_secret(shop, "late")
        made_at = time.monotonic()
        for name in names:
            shop.wait_pods(name, f"{name}-aggregation-0", f"{name}-train-0")
        took = time.monotonic() - made_at
        assert took <= SOON, f"after {took:.1f} s"
        asked = [
            it
            for it in control_plane.audit(since=began, resource="secrets", namespace=shop.namespace)
            if it.verb != "create"
        ]
        assert {it.verb for it in asked} == {"get"}
        # One a second at most for all of them, the first and the one that found it besides.
        assert len(asked) <= time.time() - began + 2
