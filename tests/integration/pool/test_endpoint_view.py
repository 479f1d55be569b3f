"""The endpoint view by the verdicts of real members."""

from __future__ import annotations

import time

import pytest

from tests.integration.pool.hall import Nodes, until
from tests.integration.pool.test_detour import relay_on
from tests.integration.relay.endpoint_view.view_site import ready_of, slice_of
from tools.harness.controlplane.access.accounts import expect
from tools.harness.controlplane.reservation import LOOPBACK, Reservation
from tools.harness.pods.wire.caller import Caller

pytestmark = [pytest.mark.long, pytest.mark.slow]

SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
NAME = "web-of-the-hall"


def test_endpoint_view_by_real_members_a_site_that_was_cut_off_has_no_dip(nodes: Nodes) -> None:
    one = nodes["m1"]
    admin = one.plane.admin
    expect(admin.post(SLICES, slice_of("default", NAME, dict.fromkeys(nodes, True), {})))
    port = Reservation()
    try:
        with relay_on(one, f"--endpoint-view={LOOPBACK}:{port.port}") as relay:
            view = Caller(f"http://{LOOPBACK}:{port.port}")

            def ready() -> str:
                return ready_of(view.get(f"{SLICES}/{NAME}").expect())

            def kept() -> int:
                return int(relay.status()["endpointView"]["keptEndpoints"])

            until(lambda: relay.status()["endpointView"]["hasVerdicts"], what="verdicts")
            assert ready() == "m1 m2 m3"
            # One that is dead, and its kernel not: degraded, which says nothing of its pods.
            nodes["m3"].member.kill()
            peers = one.member.status
            until(
                lambda: any(it["verdict"] == "Degraded" for it in peers()["peers"]),
                what="m3 is degraded",
            )
            assert ready() == "m1 m2 m3"

            for node in nodes.values():
                node.link.refuse()
            relay.wait_link(up=False)
            none = slice_of("default", NAME, dict.fromkeys(nodes, False), {})
            expect(admin.patch(f"{SLICES}/{NAME}", {"endpoints": none["endpoints"]}))
            time.sleep(31)
            assert ready() == "m1 m2 m3"
            for node in nodes.values():
                node.link.heal()
            # Of a node that is not alive nothing is kept.
            until(lambda: kept() == 2, what="upstream is heard")
            assert ready() == "m1 m2"
            until(lambda: ready() == "", what="upstream is believed", timeout=90)
            nodes["m3"].member.start()
    finally:
        port.release()
        admin.delete(f"{SLICES}/{NAME}")
