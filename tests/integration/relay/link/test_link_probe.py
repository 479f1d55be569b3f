"""R4: a cut is noticed, whatever it looks like, and so is its end."""

import asyncio
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import uvloop

from edge_sidecars.kubeapi import ApiTransport, Credentials, InCluster, Plain
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from relay_sidecar.core.link import LinkEvidence, UpstreamLink
from relay_sidecar.upstream.link_probe import LinkProbe
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.pods.wire.raw_server import Connection, RawServer

INTERVAL = 1.0
TIMEOUT = 0.9
# Seconds that are promised, and some for a busy API server.
NOTICED = 2 * 3.0
HEALED = 1.5 + 3.5
# Seconds between probes where no second one is to come by itself.
NEVER = 60.0
# Seconds for what the server did to reach the client's loop.
ARRIVAL = 0.3
# Seconds in which a probe that is due comes.
SOON = 5.0
# Seconds between two looks at the clock.
TICK = 0.05
# A machine may be busy once or twice.
TRIES = 4

Break = Callable[[FaultProxy], None]
CUTS: dict[str, Break] = {
    "refused": FaultProxy.refuse,
    "reset": FaultProxy.reset,
    "black-hole": FaultProxy.black_hole,
    "no-answers": FaultProxy.lose_response,
}


class Probed:
    """A probe that runs, and what it told."""

    def __init__(self, transport: ApiTransport, *, interval: float, was_down: bool) -> None:
        link = UpstreamLink(probe_interval=interval, probe_timeout=TIMEOUT, was_down=was_down)
        self.probe = LinkProbe(transport, link)
        self.probe.on_change.append(self._changed)
        self.told: list[bool] = []
        self._event = asyncio.Event()

    async def until_told(self, *expected: bool, within: float) -> None:
        """`within` seconds in which this process ran: where it stood still, so did the probe."""
        left = within
        while self.told != list(expected):
            assert left > 0.0, f"told {self.told} after {within:g} s"
            began = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._event.wait()
            self._event.clear()
            left -= min(time.monotonic() - began, 2 * TICK)

    def _changed(self, is_up: bool) -> None:
        self.told.append(is_up)
        self._event.set()


def probing(
    credentials: Credentials,
    work: Callable[[Probed], Awaitable[None]],
    *,
    interval: float = INTERVAL,
    was_down: bool = False,
) -> None:
    async def run() -> None:
        transport = ApiTransport(credentials, user_agent="relay-sidecar/test")
        probed = Probed(transport, interval=interval, was_down=was_down)
        running = asyncio.create_task(probed.probe.run())
        try:
            await work(probed)
        finally:
            running.cancel()
            await asyncio.wait({running})
            await transport.close()

    uvloop.run(run())


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_r4_a_cut_is_noticed_once_and_its_end_is_too(
    control_plane: ControlPlane, fault_proxy: FaultProxy, cut: Break
) -> None:
    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        await asyncio.to_thread(cut, fault_proxy)
        await probed.until_told(True, False, within=NOTICED)
        assert (probed.probe.down_for or 0.0) > 0.0
        await asyncio.to_thread(fault_proxy.heal)
        await probed.until_told(True, False, True, within=HEALED)
        assert (probed.probe.is_up, probed.probe.down_for) == (True, None)

    probing(Kubeconfig(control_plane.admin_kubeconfig(), server=fault_proxy.url), work)


async def until_asked(server: RawServer, times: int) -> None:
    """Until there were so many requests."""
    async with asyncio.timeout(4 * SOON):
        while len(server.requests) < times:  # noqa: ASYNC110 - a server in threads tells nobody
            await asyncio.sleep(TICK)


def answering(status: str) -> Callable[[Connection], None]:
    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(b"{}", status=status)

    return serve


@pytest.mark.parametrize("status", ["502 Bad Gateway", "503 X", "504 Gateway Timeout"])
def test_r4_a_gateway_without_an_api_server_is_none(status: str) -> None:
    async def work(probed: Probed) -> None:
        await probed.until_told(False, within=NOTICED)

    with RawServer(answering(status)) as server:
        probing(Plain(server.url), work)


def test_that_credentials_are_refused_is_known_by_the_probe() -> None:
    statuses = iter(["401 X"] * 3)

    def serve(connection: Connection) -> None:
        while connection.request():
            connection.answer(b'{"kind":"Status"}', status=next(statuses, "200 OK"))

    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        states = [probed.probe.state]
        await until_asked(server, 5)
        assert [*states, probed.probe.state] == ["unauthorized", "up"]

    with RawServer(serve) as server:
        probing(Plain(server.url), work, interval=0.2)


def test_r4_a_connection_that_was_closed_between_two_probes_is_no_cut() -> None:
    def serve(connection: Connection) -> None:
        connection.request()
        connection.answer(b"ok")

    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        await until_asked(server, 6)
        assert probed.told == [True]

    with RawServer(serve) as server:
        probing(Plain(server.url), work, interval=0.1)


def test_r4_a_failed_request_is_followed_by_a_probe_at_once() -> None:
    asked = threading.Semaphore(0)

    def serve(connection: Connection) -> None:
        while connection.request():
            asked.release()
            connection.answer(b"ok")

    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        assert asked.acquire(blocking=False)
        probed.probe.met(LinkEvidence.REFUSED)
        assert await asyncio.to_thread(asked.acquire, timeout=SOON)
        # It was answered: one request that failed is no cut.
        await asyncio.sleep(ARRIVAL)
        assert probed.told == [True]

    with RawServer(serve) as server:
        probing(Plain(server.url), work, interval=NEVER)


def test_r5_after_a_restart_in_an_outage_first_requests_wait_less_for_the_first_verdict() -> None:
    async def wait() -> None:
        transport = ApiTransport(Plain("http://127.0.0.1:9"), user_agent="relay-sidecar/test")
        waits = {}
        for was_down in (False, True):
            link = UpstreamLink(probe_interval=NEVER, probe_timeout=TIMEOUT, was_down=was_down)
            waits[was_down] = asyncio.create_task(LinkProbe(transport, link).known())
        await asyncio.wait(waits.values(), return_when=asyncio.FIRST_COMPLETED)
        assert waits[True].done()
        assert not waits[False].done()
        await waits[False]
        await transport.close()

    uvloop.run(wait())


def test_r5_requests_wait_together_for_the_first_verdict() -> None:
    """A client that makes several in a row in a black hole waits once."""

    async def wait() -> None:
        transport = ApiTransport(Plain("http://127.0.0.1:9"), user_agent="relay-sidecar/test")

        def probe() -> LinkProbe:
            link = UpstreamLink(probe_interval=NEVER, probe_timeout=TIMEOUT, was_down=True)
            return LinkProbe(transport, link)

        asked = probe()
        await asked.known()
        again, first = (asyncio.create_task(it.known()) for it in (asked, probe()))
        await asyncio.wait({again, first}, return_when=asyncio.FIRST_COMPLETED)
        assert again.done()
        assert not first.done()
        await first
        await transport.close()

    uvloop.run(wait())


def test_r4_a_probe_of_an_api_server_at_rest_is_a_fifth_of_a_kilobyte_at_most(
    control_plane: ControlPlane, fault_proxy: FaultProxy
) -> None:
    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        # After the handshake's last words, which come with the first answer or behind it.
        await asyncio.sleep(0.5)
        for _ in range(TRIES):
            before, since = fault_proxy.traffic(), time.monotonic()
            await asyncio.sleep(3)
            spent, probes = fault_proxy.traffic(), (time.monotonic() - since) / 0.1
            # Else one came too late, and was followed by another over a new connection.
            if spent.connections == before.connections:
                break
        assert spent.connections == before.connections
        size = spent.request_bytes + spent.response_bytes
        assert 0 < size - before.request_bytes - before.response_bytes < 200 * probes
        assert probed.told == [True]

    credentials = Kubeconfig(control_plane.admin_kubeconfig(), server=fault_proxy.url)
    probing(credentials, work, interval=0.1)


@contextmanager
def api_server(
    folder: Path, serve: Callable[[Connection], None], *, name: str = "kubernetes.default.svc"
) -> Iterator[tuple[RawServer, Credentials]]:
    """One with a certificate of this name, and whoever trusts it."""
    authority = Authority(folder, "ca")
    files = authority.issue_server("server", hosts=["127.0.0.1", name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    (folder / "ca.crt").write_bytes(authority.bundle.read_bytes())
    (folder / "token").write_text("token")
    with RawServer(serve, tls=context) as server:
        yield server, InCluster(server.url.replace("http:", "https:"), folder)


def is_brief(request: bytes) -> bool:
    return request.startswith(b"OPTIONS * HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("name", "head"),
    [("gateway.example", ""), ("kubernetes.default.svc", "Server: gateway\r\n")],
    ids=["certificate", "header"],
)
def test_r4_a_gateway_that_answers_by_itself_proves_no_api_server(
    tmp_path: Path, name: str, head: str
) -> None:
    """It has nobody behind it from its second answer on, and answers by itself what is no path, as
    any gateway does that is written in Go."""

    def serve(connection: Connection) -> None:
        served = 0
        while request := connection.request():
            if is_brief(request):
                connection.answer(b"", headers=head)
            else:
                connection.answer(b"", status="200 OK" if not served else "503 X", headers=head)
                served += 1

    async def work(probed: Probed) -> None:
        await probed.until_told(True, within=SOON)
        await probed.until_told(True, False, within=SOON)

    with api_server(tmp_path, serve, name=name) as (_, credentials):
        probing(credentials, work, interval=0.1)
