"""Requests through the proxy that the environment or a kubeconfig names: which way each goes, what
the proxy is shown, and what is said where it fails. The server has a name that only the proxy
knows."""

import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from edge_sidecars.kubeapi import ApiTransport, NotSent, Plain, ProxyRefused, Unreachable
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from edge_sidecars.runtime.cli.proxies import proxy_variables
from tests.integration.http_proxy import HttpProxy
from tests.integration.lib.kubeapi.sending import Run, answer_all, ask
from tools.harness.controlplane.access.certificates import Authority
from tools.harness.pods.wire.raw_server import RawServer

HOST = "api.test"
USER, PASSWORD = "user", "p@ss:word"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
IN_URL = "user:p%40ss%3Aword"

Work = Callable[[ApiTransport], Awaitable[None]]


def told(proxy: str) -> dict[str, str]:
    return {"HTTPS_PROXY": proxy, "HTTP_PROXY": proxy}


def plain(server: RawServer, environ: dict[str, str]) -> Plain:
    return Plain(f"http://{HOST}:{server.port}", proxies=proxy_variables(environ))


def kubeconfig(
    folder: Path, server: str, environ: dict[str, str], *, proxy_url: str = ""
) -> Kubeconfig:
    cluster = {"server": server, "certificate-authority": str(folder / "ca.crt")}
    if proxy_url:
        cluster["proxy-url"] = proxy_url
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret-of-the-user"}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(content))
    return Kubeconfig(path, proxies=proxy_variables(environ))


@pytest.fixture
def server(tmp_path: Path) -> RawServer:
    """TLS, with a certificate for HOST."""

    files = Authority(tmp_path, "ca").issue_server("server", hosts=[HOST])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    return RawServer(answer_all, tls=context)


def test_a_tls_server_is_reached_by_a_tunnel_and_the_proxy_sees_no_token(
    using: Run[None], tmp_path: Path, server: RawServer
) -> None:
    async def work(api: ApiTransport) -> None:
        assert await ask(api) == b"whole"
        assert await ask(api, "POST", body=b"x") == b"whole"

    with server, HttpProxy({HOST: server.port}, authorization=BASIC) as proxy:
        environ = told(f"http://{IN_URL}@127.0.0.1:{proxy.port}")
        credentials = kubeconfig(tmp_path, f"https://{HOST}:{server.port}", environ)
        using(credentials, work)
        assert credentials.proxy is not None
        assert credentials.proxy.url == proxy.url
    assert proxy.tunnels == [f"{HOST}:{server.port}"], "one, which is kept"
    assert b"secret-of-the-user" not in b"".join(proxy.heads)
    assert b"Bearer secret-of-the-user" in server.requests[0]
    assert b"Proxy-Authorization" not in server.requests[0]


def test_a_proxy_url_wins_over_the_environment_and_is_followed_when_it_changes(
    using: Run[None], tmp_path: Path, server: RawServer
) -> None:
    with (
        server,
        HttpProxy({HOST: server.port}) as first,
        HttpProxy({HOST: server.port}) as second,
        HttpProxy({}) as other,
    ):
        url = f"https://{HOST}:{server.port}"
        credentials = kubeconfig(tmp_path, url, told(other.url), proxy_url=first.url)

        async def work(api: ApiTransport) -> None:
            assert await ask(api) == b"whole"
            kubeconfig(tmp_path, url, {}, proxy_url=second.url + "/")
            assert await ask(api) == b"whole"

        using(credentials, work)
    assert (len(first.tunnels), len(second.tunnels), other.heads) == (1, 1, [])


def test_a_server_without_tls_is_asked_by_whole_urls_each_with_the_password(
    using: Run[None],
) -> None:
    async def work(api: ApiTransport) -> None:
        assert await ask(api, target="/a?b=c%20d") == b"whole"
        assert await ask(api, "OPTIONS", "*") == b"whole"

    with RawServer(answer_all) as server, HttpProxy({HOST: server.port}, authorization=BASIC) as it:
        using(plain(server, told(f"http://{IN_URL}@127.0.0.1:{it.port}")), work)
    url = f"http://{HOST}:{server.port}"
    assert it.forwarded == [f"{url}/a?b=c%20d", url]
    assert it.tunnels == []
    assert server.requests[1].startswith(b"OPTIONS * HTTP/1.1")
    assert BASIC.encode() not in b"".join(server.requests)


def test_what_is_on_loopback_or_excluded_is_asked_directly(using: Run[None]) -> None:
    async def work(api: ApiTransport) -> None:
        assert await ask(api) == b"whole"

    with RawServer(answer_all) as server, HttpProxy({}) as proxy:
        for host in ("127.0.0.1", "localhost"):
            url = f"http://{host}:{server.port}"
            using(Plain(url, proxies=proxy_variables(told(proxy.url))), work)
    assert proxy.heads == []


@pytest.mark.parametrize("is_tls", [True, False], ids=["tunnel", "forwarded"])
def test_a_proxy_that_wants_a_password_is_named_with_the_remedy(
    using: Run[None], tmp_path: Path, server: RawServer, is_tls: bool
) -> None:
    async def work(api: ApiTransport) -> None:
        with pytest.raises(ProxyRefused) as refused:
            await ask(api)
        text = str(refused.value)
        assert f"the proxy {proxy.url} refuses" in text
        assert "407 Proxy Authentication Required; give it user and password" in text
        assert "wrong" not in text

    with server, HttpProxy({HOST: server.port}, authorization=BASIC) as proxy:
        environ = told(f"http://user:wrong@127.0.0.1:{proxy.port}")
        url = f"https://{HOST}:{server.port}"
        using(kubeconfig(tmp_path, url, environ) if is_tls else plain(server, environ), work)
    assert server.requests == []


@pytest.mark.parametrize("refusal", ["403 Forbidden", "502 Bad Gateway", "504 Gateway Timeout"])
def test_a_proxy_that_makes_no_tunnel_is_named_with_its_answer(
    using: Run[None], tmp_path: Path, server: RawServer, refusal: str
) -> None:
    async def work(api: ApiTransport) -> None:
        with pytest.raises(ProxyRefused) as refused:
            await ask(api)
        assert str(refused.value) == f"the proxy {proxy.url} refuses {url}: {refusal}"

    with server, HttpProxy({HOST: server.port}) as proxy:
        proxy.refusal = refusal
        url = f"https://{HOST}:{server.port}"
        using(kubeconfig(tmp_path, url, told(proxy.url)), work)


@pytest.mark.parametrize("is_tls", [True, False], ids=["tunnel", "forwarded"])
def test_a_proxy_that_is_not_there_or_never_answers_is_named(
    using: Run[None], tmp_path: Path, server: RawServer, is_tls: bool
) -> None:
    def credentials(proxy: HttpProxy) -> Kubeconfig | Plain:
        url = f"https://{HOST}:{server.port}"
        environ = told(proxy.url)
        return kubeconfig(tmp_path, url, environ) if is_tls else plain(server, environ)

    async def gone(api: ApiTransport) -> None:
        with pytest.raises(NotSent, match="Cannot connect to host 127") as refused:
            await ask(api)
        assert f"(through the proxy {proxy.url})" in str(refused.value)

    async def silent(api: ApiTransport) -> None:
        with pytest.raises(Unreachable, match="no answer from") as late:
            await ask(api, timeout=0.3)
        assert f"(through the proxy {proxy.url})" in str(late.value)
        assert late.value.is_late
        assert isinstance(late.value, NotSent) is is_tls

    with server:
        with HttpProxy({HOST: server.port}) as proxy:
            proxy.is_silent = True
            using(credentials(proxy), silent)
        using(credentials(proxy), gone)


def test_a_certificate_of_another_is_not_believed_through_a_proxy(
    using: Run[None], tmp_path: Path, server: RawServer
) -> None:
    async def work(api: ApiTransport) -> None:
        with pytest.raises(NotSent, match="certificate") as refused:
            await ask(api)
        assert f"(through the proxy {proxy.url})" in str(refused.value)

    with server, HttpProxy({"other.test": server.port}) as proxy:
        url = f"https://other.test:{server.port}"
        using(kubeconfig(tmp_path, url, told(proxy.url)), work)
    assert server.requests == []
