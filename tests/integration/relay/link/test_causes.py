"""R6: why upstream is not reached can be read in each place where a person looks."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.http_proxy import HttpProxy
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.reservation import LOOPBACK
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.pods.wire.raw_server import Connection, RawServer

pytestmark = pytest.mark.slow

UNKNOWN = "/api/v1/namespaces/default/configmaps/unknown"
# Seconds: the verdict, and a name that is looked up in vain.
SOON = 20.0
# Seconds: a client is no longer asked to come again, and is not made to wait.
SETTLED, QUICK = 3.0, 1.0

Server = Callable[[ControlPlane, Path, ExitStack], str]
"""The kubeconfig's content, written as JSON."""


def kubeconfig(server: str, **cluster: str) -> str:
    return json.dumps(
        {
            "kind": "Config",
            "apiVersion": "v1",
            "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


def of_another_authority(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    bundle = Authority(folder, "stranger").bundle
    return kubeconfig(plane.server, **{"certificate-authority": str(bundle)})


def for_another_name(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    name = {"tls-server-name": "elsewhere.example.com"}
    ca = {"certificate-authority": str(plane.ca_bundle)}
    return kubeconfig(plane.server, **ca, **name)


def without_an_address(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    return kubeconfig("https://api.nowhere.invalid:6443")


def at_a_closed_port(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    free = stack.enter_context(socket.socket())
    free.bind((LOOPBACK, 0))
    return kubeconfig(f"https://{LOOPBACK}:{free.getsockname()[1]}")


def http_where_it_speaks_https(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    return kubeconfig(plane.server.replace("https://", "http://"))


def https_where_it_speaks_http(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    def answer(connection: Connection) -> None:
        connection.answer(b"no", status="400 Bad Request")

    server = stack.enter_context(RawServer(answer))
    return kubeconfig(server.url.replace("http://", "https://"))


def without_an_answer(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    silent = stack.enter_context(socket.create_server((LOOPBACK, 0)))
    return kubeconfig(f"http://{LOOPBACK}:{silent.getsockname()[1]}")


def from_a_gateway(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
    def answer(connection: Connection) -> None:
        while connection.request():
            connection.answer(b"gone", status="502 Bad Gateway")

    return kubeconfig(stack.enter_context(RawServer(answer)).url)


def from_a_portal(status: str, kind: str = "text/html") -> Server:
    """Where one is to log in first, or a gateway without a way to the API server."""
    headers = f"Content-Type: {kind}\r\nLocation: /login\r\n"

    def answer(connection: Connection) -> None:
        while connection.request():
            connection.answer(b"<html>log in</html>", status=status, headers=headers)

    return lambda plane, folder, stack: kubeconfig(stack.enter_context(RawServer(answer)).url)


def by_proxy(
    refusal: str = "", *, password: str = "", silent: bool = False, gone: bool = False
) -> Server:
    """Through a company's proxy that does not do it."""

    def server(plane: ControlPlane, folder: Path, stack: ExitStack) -> str:
        with ExitStack() as until_gone:
            proxy = HttpProxy({}, authorization=password)
            (until_gone if gone else stack).enter_context(proxy)
            proxy.refusal, proxy.is_silent = refusal, silent
        return kubeconfig(
            "https://api.test:6443",
            **{"proxy-url": proxy.url.replace("://", "://user:hunter2@")},
        )

    return server


CAUSES: dict[str, tuple[Server, str]] = {
    "proxy-forbids": (by_proxy("403 Forbidden"), "refuses https://api.test:6443: 403 Forbidden"),
    "proxy-wants-a-password": (by_proxy(password="Basic other"), "give it user and password"),
    "proxy-is-cut-off": (by_proxy("502 Bad Gateway"), "refuses https://api.test:6443: 502"),
    "proxy-is-silent": (by_proxy(silent=True), "(through the proxy http://127.0.0.1:"),
    "proxy-is-gone": (by_proxy(gone=True), "(through the proxy http://127.0.0.1:"),
    "wrong-ca": (of_another_authority, "certificate verify failed"),
    "wrong-name": (for_another_name, "elsewhere.example.com"),
    "dns": (without_an_address, "api.nowhere.invalid"),
    "refused": (at_a_closed_port, "refused"),
    "http-to-https": (http_where_it_speaks_https, "speaks https"),
    "https-to-http": (https_where_it_speaks_http, "SSL"),
    "silence": (without_an_answer, "no answer"),
    "gateway": (from_a_gateway, "502"),
    "portal": (from_a_portal("200 OK"), "answers 200 to /livez, with a web page"),
    "portal-elsewhere": (from_a_portal("302 Found"), "answers 302 to /livez"),
    "gateway-403": (from_a_portal("403 Forbidden", "text/plain"), "answers 403 to /livez"),
    "gateway-404": (from_a_portal("404 Not Found", "text/plain"), "answers 404 to /livez"),
}


# One of each place that knows the cause: proxy, name, connection, TLS, answer.
SOONEST = ("proxy-forbids", "wrong-ca", "dns", "refused", "silence")


@contextmanager
def relay_to(content: str, folder: Path) -> Iterator[RelayProcess]:
    path = folder / "kubeconfig"
    path.write_text(content)
    relay = RelayProcess([f"--kubeconfig={path}"], data_dir=folder / "data")
    try:
        yield relay.start()
    finally:
        relay.stop()


@pytest.mark.parametrize(
    "kind", [it if it in SOONEST else pytest.param(it, marks=pytest.mark.long) for it in CAUSES]
)
def test_r6_the_cause_is_in_each_place(
    control_plane: ControlPlane, tmp_path: Path, kind: str
) -> None:
    server, word = CAUSES[kind]
    with ExitStack() as stack:
        content = server(control_plane, tmp_path, stack)
        relay = stack.enter_context(relay_to(content, tmp_path))
        deadline = time.monotonic() + SOON
        while word not in str(relay.status()["link"]["cause"]):
            assert time.monotonic() < deadline, relay.status()["link"]
            time.sleep(0.1)

        readyz = relay._ask("/readyz?upstream=true")
        assert readyz is not None
        assert (readyz.status, word in readyz.body.decode()) == (503, True)
        assert word in relay.command("status")
        time.sleep(SETTLED)
        for path in (UNKNOWN, "/api/v1/namespaces/default/pods", "/apis/example.com/v1"):
            reply = Caller(relay.url).get(path)
            assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert word in reply.json()["message"], reply.body
            assert "Retry-After" not in reply.headers
            assert reply.seconds < QUICK
        written = Caller(relay.url).post("/api/v1/namespaces/default/configmaps", {})
        assert (written.status, word in written.json()["message"]) == (503, True)
        assert "Retry-After" not in written.headers
        lines = [line for line in relay.log_text().splitlines() if "out of reach" in line]
        assert any(word in line for line in lines), lines
        # Once for each cause, not once for each look.
        assert len(lines) <= 3
        assert "hunter2" not in relay.log_text() + json.dumps(relay.status())
