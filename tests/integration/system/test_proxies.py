"""Each component where the only way to its server is an HTTP proxy: the server's name is one that
only the proxy can look up, and the proxy counts. The password is in no log and no status."""

import asyncio
import base64
import json
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.proxies import proxy_variables
from edge_sidecars.runtime.cli.values import BadInput
from lc.stream.stream_link import gm_proxy
from tests.integration.gm.streams import Cloud, document, eventually, play, running_gm, running_lc
from tests.integration.http_proxy import HttpProxy
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ELECTOR_RULES, ElectorPod
from tools.harness.pods.gm import GmProcess
from tools.harness.pods.lc import LcProcess
from tools.harness.pods.pools.controller import PoolControllerProcess
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller
from tools.harness.processes.command import run
from tools.harness.processes.process import Process

pytestmark = pytest.mark.long

# In the certificate of the harness' API server, and in no DNS.
HOST = "kubernetes.default.svc"
PASSWORD = "hunter2"
BASIC = "Basic " + base64.b64encode(f"user:{PASSWORD}".encode()).decode()
LINK = {"lease-duration": "6s", "renew-interval": "1s", "request-timeout": "2s"}
TIMING = [f"--{name}={value}" for name, value in LINK.items()]
# Seconds; on a busy machine.
SOON = 30.0


def until(is_so: Callable[[], object], *, what: str) -> None:
    deadline = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def told(proxy: HttpProxy) -> dict[str, str]:
    url = proxy.url.replace("://", f"://user:{PASSWORD}@")
    return {"HTTPS_PROXY": url, "HTTP_PROXY": url}


@pytest.fixture
def proxy(control_plane: ControlPlane) -> Iterator[HttpProxy]:
    with HttpProxy({HOST: control_plane.port}, authorization=BASIC) as it:
        yield it
        it.cut()


@pytest.fixture
def server(control_plane: ControlPlane) -> str:
    return f"https://{HOST}:{control_plane.port}"


def relay_to(server: str, plane: ControlPlane, environ: dict[str, str]) -> RelayProcess:
    flags = [f"--kubeconfig={plane.admin_kubeconfig(server=server)}", "--probe-interval=300ms"]
    return RelayProcess(flags, environ=environ, guardian=plane.guardian)


def test_an_elector_leads_and_its_status_is_read_through_the_proxy(
    control_plane: ControlPlane, namespace: str, proxy: HttpProxy, server: str
) -> None:
    kubeconfig = control_plane.kubeconfig_for(namespace, "e", ELECTOR_RULES, server=server)
    flags = ["--kubeconfig", str(kubeconfig), "--on-missing", "take", *TIMING]
    with ElectorPod(
        "pod-0", "controller", flags, environ=told(proxy), guardian=control_plane.guardian
    ) as pod:
        pod.start()
        until(pod.is_leader, what="it leads")
        asked = len(proxy.tunnels)
        assert asked
        [line] = [it for it in pod.log_lines() if it["message"] == "contending"]
        assert (line["server"], line["proxy"]) == (server, proxy.url)
        status = run(
            *("status", "--lease", "controller", "--kubeconfig", str(kubeconfig)),
            environ=told(proxy),
        )
        assert status.returncode == 0, status.stderr
        assert len(proxy.tunnels) > asked
        assert PASSWORD not in pod.log_text() + status.stdout + status.stderr
    assert set(proxy.tunnels) == {f"{HOST}:{control_plane.port}"}


def test_a_relay_lists_watches_and_says_which_proxy_it_goes_through(
    control_plane: ControlPlane, namespace: str, proxy: HttpProxy, server: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    with relay_to(server, control_plane, told(proxy)) as relay:
        relay.wait_link(up=True)
        with Caller(relay.url).watch(path, {"timeoutSeconds": 60}) as watching:
            control_plane.admin.post(path, {"metadata": {"name": "a"}})
            watching.wait_told(("ADDED", "a"))
        link = relay.status()["link"]
        assert (link["server"], link["proxy"], link["via"]) == (server, proxy.url, None)
        assert f"to {server} through the proxy {proxy.url}" in relay.command("status")
        proxy.refusal = "403 Forbidden"
        proxy.cut()
        relay.wait_link(up=False)
        told_off = relay.log_text()
        assert f"the proxy {proxy.url} refuses {server}: 403 Forbidden" in told_off
        proxy.refusal = ""
        relay.wait_link(up=True)
        assert PASSWORD not in relay.log_text() + json.dumps(relay.status())
    assert set(proxy.tunnels) == {f"{HOST}:{control_plane.port}"}


def test_a_proxy_over_tls_is_believed_as_the_system_says(
    control_plane: ControlPlane, server: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path, "company")
    files = authority.issue_server("proxy", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    with HttpProxy({HOST: control_plane.port}, authorization=BASIC, tls=context) as proxy:
        environ = {**told(proxy), "SSL_CERT_FILE": str(authority.bundle)}
        with relay_to(server, control_plane, environ) as relay:
            relay.wait_link(up=True)
            proxy.cut()
        with relay_to(server, control_plane, told(proxy)) as relay:
            until(lambda: relay.status()["link"]["state"] == "down", what="it is not believed")
    assert set(proxy.tunnels) == {f"{HOST}:{control_plane.port}"}


def test_the_pools_controller_reads_through_the_proxy(
    control_plane: ControlPlane, proxy: HttpProxy, server: str
) -> None:
    flags = [
        f"--kubeconfig={control_plane.admin_kubeconfig(server=server)}",
        "--elector=http://127.0.0.1:9",
    ]
    process = PoolControllerProcess(flags, name="controller", guardian=control_plane.guardian)
    process.environ |= told(proxy)
    with process:
        until(lambda: proxy.tunnels, what="a tunnel")
        until(lambda: f"proxy={proxy.url}" in said(process), what="the log names it")
        assert PASSWORD not in process.log_text()


def said(process: Process) -> str:
    """The fields of its log lines, as text."""
    lines = [it for it in process.log_text().splitlines() if it.startswith("{")]
    return "\n".join(f"{name}={value}" for it in lines for name, value in json.loads(it).items())


def test_gm_and_lc_reach_a_relay_that_is_elsewhere_through_the_proxy(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    relay = RelayProcess(
        [f"--kubeconfig={control_plane.admin_kubeconfig()}"], guardian=control_plane.guardian
    )
    with ExitStack() as stack:
        stack.enter_context(relay)
        proxy = stack.enter_context(
            HttpProxy(
                {"api.test": relay.port, "status.test": relay.status_port}, authorization=BASIC
            )
        )
        ways = [
            "--mode=relay",
            f"--api=http://api.test:{relay.port}",
            f"--relay-status=http://status.test:{relay.status_port}",
        ]
        gm = GmProcess([*ways, "--elector=http://127.0.0.1:9"], guardian=control_plane.guardian)
        lc = LcProcess([*ways, "--namespace=default"], guardian=control_plane.guardian)
        for process, name in ((gm, "sedna-gm"), (lc, "sedna-lc")):
            process.environ |= told(proxy)
            before = len(proxy.forwarded)
            if isinstance(process, LcProcess):
                process.start(wait=False)
            else:
                process.start()
            stack.callback(process.stop)
            until(lambda: len(proxy.forwarded) > before, what=f"{name} asks")  # noqa: B023
            assert PASSWORD not in process.log_text()
        proxy.cut()
    assert {it.split("/")[2].split(":")[0] for it in proxy.forwarded} <= {"api.test", "status.test"}


def test_lcs_stream_to_gm_goes_through_the_proxy_and_comes_again(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with running_gm(cloud) as gm:
            with HttpProxy({"gm.test": gm.port}, authorization=BASIC) as proxy:
                address = f"gm.test:{gm.port}"
                environ = proxy_variables(told(proxy))
                async with running_lc(tmp_path, address, proxies=environ) as lc:
                    await eventually(lambda: lc.is_up)
                    assert lc.names() == ["d1"]
                    assert proxy.tunnels == [address]
                    proxy.cut()
                    await eventually(lambda: not lc.is_up)
                    assert f"(through the proxy {proxy.url})" in lc.link.status().problem
                    assert PASSWORD not in lc.link.status().problem
                    await eventually(lambda: lc.is_up)
                    assert len(proxy.tunnels) >= 2
                await asyncio.to_thread(proxy.cut)

    play(scene())


@pytest.mark.parametrize("value", ["https://p.test:1", "socks5://p.test:1"])
def test_lc_refuses_a_proxy_that_grpc_cannot_use(value: str) -> None:
    told = proxy_variables({"HTTPS_PROXY": value})
    with pytest.raises(BadInput, match="HTTPS_PROXY"):
        gm_proxy("gm.test:1", told)
    assert gm_proxy("127.0.0.1:1", told) is None


@pytest.mark.parametrize(
    "command",
    [
        ["relay_sidecar", "--server=https://api.test:6443"],
        ["elector_sidecar", "--lease=a", "--namespace=b", "--server=https://api.test:6443"],
        ["pool_sidecar", "controller", "--server=https://api.test:6443"],
    ],
    ids=lambda it: it[0],
)
def test_a_proxy_that_cannot_be_used_ends_the_start_with_one_line(
    command: list[str], tmp_path: Path
) -> None:
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).write_text("x")
    Authority(tmp_path, "ca")
    done = subprocess.run(
        [sys.executable, "-m", *command, f"--service-account-dir={tmp_path}"],
        env={"PATH": "/usr/bin:/bin", "https_proxy": f"socks5://user:{PASSWORD}@p.test:1080"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2, done.stderr
    lines = [it for it in done.stderr.splitlines() if "https_proxy" in it]
    assert len(lines) == 1, done.stderr
    assert "https_proxy 'socks5://p.test:1080': only http:// and https://" in lines[0]
    assert PASSWORD not in done.stderr
