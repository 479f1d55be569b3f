"""Nodes whose only way to the cloud is a company's proxy: heartbeats, and a link that is lent.

Each node has a proxy of its own before its link; the API server's name is one that only these
proxies can look up.
"""

import base64
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.http_proxy import HttpProxy
from tests.integration.pool.hall import Nodes, borrows, hall, until
from tests.integration.pool.nodes import members
from tests.integration.pool.test_detour import is_over
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.pools.member import PoolNode

HOST = "kubernetes.default.svc"
BASIC = "Basic " + base64.b64encode(b"user:secret").decode()

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def proxies(pool_plane: ControlPlane) -> Iterator[dict[str, HttpProxy]]:
    """Of each node, by its name."""
    with ExitStack() as stack:
        found: dict[str, HttpProxy] = {}
        stack.callback(found.clear)
        yield found
        for proxy in found.values():
            proxy.cut()


@pytest.fixture
def nodes(
    pool_plane: ControlPlane, proxies: dict[str, HttpProxy], tmp_path: Path
) -> Iterator[Nodes]:
    with ExitStack() as stack:

        def prepare(node: PoolNode) -> None:
            proxy = HttpProxy({HOST: node.link.port}, authorization=BASIC)
            proxies[node.name] = stack.enter_context(proxy)
            for process in (node.member, node.relay):
                process.flags.append(f"--server=https://{HOST}:{pool_plane.port}")
                process.environ["HTTPS_PROXY"] = f"http://user:secret@127.0.0.1:{proxy.port}"

        found = stack.enter_context(hall(pool_plane, tmp_path, prepare=prepare))
        yield found


def test_a_link_through_a_proxy_is_lent_and_a_node_that_is_cut_goes_over_it(
    nodes: Nodes, proxies: dict[str, HttpProxy]
) -> None:
    one = nodes["m1"]
    assert one.relay.status()["link"]["proxy"] == proxies["m1"].url
    one.link.refuse()
    lender = borrows(one)
    before = len(proxies[lender].tunnels)
    until(lambda: is_over(one.relay, lender), what="the relay goes over the neighbour")
    renewed = one.renewed
    until(lambda: one.renewed != renewed, what="the Lease is renewed")
    until(lambda: members(one.plane)[one.name]["status"].get("link") == "Lent", what="status")
    tunnels = proxies[lender].tunnels
    assert len(tunnels) > before
    assert set(tunnels) == {f"{HOST}:{one.plane.port}"}
    for node in nodes.values():
        for process in (node.member, node.relay):
            assert "secret" not in process.log_text(all_lives=True).replace("keep_secrets", ""), (
                process.log_text()
            )
