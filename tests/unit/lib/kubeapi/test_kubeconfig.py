"""A kubeconfig: what of it is used, what is refused, and what is read again when it changes."""

import asyncio
import base64
import json
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_sidecars.kubeapi import Unreachable, UnusableCredentials
from edge_sidecars.kubeapi.exec_plugin import RETRY
from edge_sidecars.kubeapi.kubeconfig import Kubeconfig
from tools.harness.controlplane.access.certificates import Authority, CertificateFiles

SERVER = "https://10.0.0.1:6443"
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


@pytest.fixture
def pair(authority: Authority) -> CertificateFiles:
    return authority.issue_client("client", user="somebody", group="some")


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def config(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "a"
) -> dict[str, Any]:
    """With one context, cluster and user of this name."""
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}
        ],
    }


def written(path: Path, content: dict[str, Any], *, is_json: bool = False) -> Path:
    path.parent.mkdir(exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(content) if is_json else yaml.safe_dump(content))
    return new.replace(path)


def said(credentials: Kubeconfig) -> str | None:
    return asyncio.run(credentials.authorization())


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(UnusableCredentials) as raised:
        Kubeconfig(path, **options)
    message = str(raised.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def context_of(credentials: Kubeconfig, *, is_anonymous: bool = False) -> ssl.SSLContext:
    context = credentials.tls(is_anonymous=is_anonymous)
    assert context is not None
    return context


# ── where, and who ──


@pytest.mark.parametrize("is_json", [True, False], ids=["json", "yaml"])
def test_the_current_context_tells_server_namespace_and_token(
    tmp_path: Path, is_json: bool
) -> None:
    path = written(tmp_path / "config", config(user={"token": " t\n"}), is_json=is_json)
    credentials = Kubeconfig(path)
    assert (credentials.server, credentials.namespace) == (SERVER, "of-a")
    assert said(credentials) == "Bearer t"


def test_of_several_files_the_first_to_name_something_wins_and_paths_are_relative_to_theirs(
    tmp_path: Path,
) -> None:
    first = {"current-context": "b", "users": [{"name": "b", "user": {"tokenFile": "t"}}]}
    written(tmp_path / "one" / "config", first)
    written(tmp_path / "two" / "config", config(name="b", user={"token": "other"}))
    (tmp_path / "one" / "t").write_text("first")
    (tmp_path / "two" / "t").write_text("second")
    missing = tmp_path / "three"
    paths = os.pathsep.join(str(it) for it in (missing, tmp_path / "one/config"))
    credentials = Kubeconfig(Path(f"{paths}{os.pathsep}{tmp_path / 'two/config'}"))
    assert (credentials.namespace, said(credentials)) == ("of-b", "Bearer first")


def test_of_several_files_one_has_to_be_there(tmp_path: Path) -> None:
    several = os.pathsep.join(str(tmp_path / it) for it in ("one", "two"))
    assert f"{several}: {tmp_path / 'two'} No such file" in refusal(Path(several))


def test_another_context_can_be_named(tmp_path: Path) -> None:
    one, two = config(), config(name="b", user={"token": "of-b"})
    both = one | {kind: one[kind] + two[kind] for kind in ("clusters", "users", "contexts")}
    path = written(tmp_path / "config", both)
    assert said(Kubeconfig(path)) is None
    assert said(Kubeconfig(path, context="b")) == "Bearer of-b"
    assert "context c does not exist" in refusal(path, context="c")


def test_a_username_and_its_password_are_basic_authentication(tmp_path: Path) -> None:
    path = written(tmp_path / "config", config(user={"username": "u", "password": "p"}))
    assert said(Kubeconfig(path)) == f"Basic {base64.b64encode(b'u:p').decode()}"


def test_over_plain_http_no_token_is_sent(tmp_path: Path) -> None:
    content = config(cluster={"server": "http://h"}, user={"token": "t"})
    credentials = Kubeconfig(written(tmp_path / "config", content))
    assert (said(credentials), credentials.tls(), credentials.tls_server_name) == (None,) * 3


def test_the_name_in_the_servers_certificate_can_be_another(tmp_path: Path) -> None:
    content = config(cluster={"tls-server-name": "kubernetes"})
    assert Kubeconfig(written(tmp_path / "config", content)).tls_server_name == "kubernetes"


def test_a_server_may_be_believed_unseen(tmp_path: Path) -> None:
    content = config(cluster={"insecure-skip-tls-verify": True})
    context = context_of(Kubeconfig(written(tmp_path / "config", content)))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


def test_where_others_pass_the_bytes_on_no_server_is_believed_unseen(tmp_path: Path) -> None:
    """At the start, and when the file changes."""
    content = config(cluster={"insecure-skip-tls-verify": True})
    path = written(tmp_path / "config", content)
    with pytest.raises(UnusableCredentials, match=r"insecure-skip-tls-verify of .*: it is lent"):
        Kubeconfig(path, verified_because="it is lent")


@pytest.mark.parametrize(
    ("cluster", "user", "told"),
    [
        ({"proxy-url": "socks5://p:1080"}, {}, "proxy-url of cluster a: 'socks5://p:1080': only"),
        ({"proxy-url": "p:3128"}, {}, "proxy-url of cluster a: 'p:3128' has no scheme"),
        ({"proxy-url": "http://u:secret@"}, {}, "proxy-url of cluster a: 'http://' is no URL"),
        ({"insecure-skip-tls-verify": True, "certificate-authority": "x"}, {}, "drop one"),
        ({"insecure-skip-tls-verify": "yes"}, {}, "neither true nor false"),
        ({"server": 5}, {}, "server of cluster a is not text"),
        ({"certificate-authority": "x"}, {}, "x No such file"),
        ({}, {"auth-provider": {"name": "oidc"}}, "auth-provider of user a is not supported"),
        ({}, {"as": "admin"}, "as of user a is not supported"),
        ({}, {"client-key": "k"}, "without the other"),
        ({}, {"client-certificate-data": "?", "client-key-data": "eA=="}, "not base64"),
        ({}, {"token": "t", "username": "u"}, "drop one"),
        ({}, {"token": "two\nlines"}, "control characters"),
        ({}, {"exec": {"command": "x", "apiVersion": V1 + "alpha1"}}, "is not supported"),
        ({}, {"exec": {"apiVersion": V1}}, "has no command"),
        (
            {},
            {"exec": {"command": "x", "apiVersion": V1, "interactiveMode": "Always"}},
            "needs a terminal",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused_and_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], told: str
) -> None:
    assert told in refusal(written(tmp_path / "config", config(cluster=cluster, user=user)))


# ── client certificates ──


@pytest.mark.parametrize("is_inline", [True, False], ids=["data", "files"])
def test_a_client_certificate_is_presented_by_us_and_not_beside_a_callers_token(
    tmp_path: Path, authority: Authority, pair: CertificateFiles, is_inline: bool
) -> None:
    if is_inline:
        cluster = {"certificate-authority-data": base64_of(authority.bundle)}
        user = {
            "client-certificate-data": base64_of(pair.certificate),
            "client-key-data": base64_of(pair.key),
        }
    else:
        cluster = {"certificate-authority": authority.bundle.name}
        user = {"client-certificate": pair.certificate.name, "client-key": pair.key.name}
    path = written(pair.key.parent / "config", config(cluster=cluster, user=user))
    credentials = Kubeconfig(path)
    assert "ca" in str(context_of(credentials).get_ca_certs())
    assert presented(authority, context_of(credentials)) == "somebody"
    assert presented(authority, context_of(credentials, is_anonymous=True)) is None


def test_a_key_in_a_kubeconfig_is_written_to_no_disk(
    tmp_path: Path, authority: Authority, pair: CertificateFiles, opened: list[tuple[str, bool]]
) -> None:
    """Though OpenSSL takes one from files only."""
    user = {
        "client-certificate-data": base64_of(pair.certificate),
        "client-key-data": base64_of(pair.key),
    }
    cluster = {"certificate-authority-data": base64_of(authority.bundle)}
    path = written(tmp_path / "config", config(cluster=cluster, user=user))
    opened.clear()
    context = context_of(Kubeconfig(path))
    assert (str(path), False) in opened
    assert [name for name, writes in opened if writes] == []
    assert presented(authority, context) == "somebody"


@pytest.fixture
def opened() -> Iterator[list[tuple[str, bool]]]:
    """Files that were opened by name, and whether to be written."""
    found: list[tuple[str, bool]] = []
    is_on = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        # A hook stays for the life of the process.
        if is_on and event == "open" and not isinstance(arguments[0], int):
            flags = int(arguments[2] or 0)
            found.append((str(arguments[0]), bool(flags & (os.O_WRONLY | os.O_RDWR))))

    sys.addaudithook(hook)
    yield found
    is_on = False


def presented(authority: Authority, client: ssl.SSLContext) -> str | None:
    """The name in the certificate that a server sees."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own = authority.issue_server("server", hosts=["kubernetes"])
    server.load_cert_chain(own.certificate, own.key)
    server.load_verify_locations(cafile=authority.bundle)
    server.verify_mode = ssl.CERT_OPTIONAL
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname="kubernetes")
    theirs = server.wrap_bio(there, back, server_side=True)
    for _ in range(5):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = theirs.getpeercert()
    names = [] if not found else [part for rdn in found["subject"] for part in rdn]
    return dict(names).get("commonName")  # type: ignore[arg-type]


def test_a_rotated_pair_is_taken_when_it_is_whole_and_one_line_says_that_it_is_not(
    tmp_path: Path,
    authority: Authority,
    pair: CertificateFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    cluster = {"certificate-authority": str(authority.bundle)}
    credentials = Kubeconfig(written(tmp_path / "config", config(cluster=cluster, user=user)))
    before = context_of(credentials)
    assert context_of(credentials) is before
    new = authority.issue_client("next", user="next", group="some")
    pair.certificate.write_bytes(new.certificate.read_bytes()[:100])
    assert context_of(credentials) is before
    pair.certificate.write_bytes(new.certificate.read_bytes())
    for _ in range(3):  # the key of before does not fit
        assert context_of(credentials) is before
    pair.key.write_bytes(new.key.read_bytes())
    assert presented(authority, context_of(credentials)) == "next"
    assert len(caplog.records) == 2, caplog.records
    assert str(pair.key) in str(caplog.records[-1].__dict__["fields"])


def test_a_rotated_authority_is_trusted(tmp_path: Path, authority: Authority) -> None:
    cluster = {"certificate-authority": str(authority.bundle)}
    credentials = Kubeconfig(written(tmp_path / "config", config(cluster=cluster)))
    authority.bundle.write_bytes(Authority(tmp_path, "next").bundle.read_bytes())
    assert "next" in str(context_of(credentials).get_ca_certs())


def test_an_encrypted_key_is_refused_and_nobody_is_asked_for_its_password(
    tmp_path: Path, pair: CertificateFiles
) -> None:
    from cryptography.hazmat.primitives import serialization as it

    key = it.load_pem_private_key(pair.key.read_bytes(), password=None)
    sealed = it.BestAvailableEncryption(b"secret")
    pair.key.write_bytes(
        key.private_bytes(it.Encoding.PEM, it.PrivateFormat.TraditionalOpenSSL, sealed)
    )
    user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
    assert "encrypted" in refusal(written(tmp_path / "config", config(user=user)))


# ── what changes ──


def test_a_kubeconfig_that_changes_is_read_again_but_moves_nobody_to_another_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "config", config(user={"token": "first"}))
    credentials = Kubeconfig(path)
    written(path, config(user={"token": "second"}))
    assert said(credentials) == "Bearer second"
    path.write_text("{")
    assert said(credentials) == "Bearer second"
    written(path, config(cluster={"server": "https://other"}, user={"token": "third"}))
    assert (credentials.server, said(credentials)) == (SERVER, "Bearer second")
    assert "restart to go there" in str(caplog.records[-1].__dict__["fields"])
    written(path, config(name="b", user={"token": "of-b"}) | {"current-context": "b"})
    assert said(credentials) == "Bearer second"
    written(path, config(user={"token": "fourth"}))
    assert said(credentials) == "Bearer fourth"


def test_a_token_file_wins_over_a_token_and_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "t"
    user = {"token": "constant", "tokenFile": "t"}
    credentials = Kubeconfig(written(tmp_path / "config", config(user=user)))
    assert said(credentials) == "Bearer constant"
    file.write_text("first\n")
    assert said(credentials) == "Bearer first"
    file.write_text("second")
    assert said(credentials) == "Bearer second"
    file.write_text("")
    assert said(credentials) == "Bearer second"


@pytest.mark.parametrize("content", [None, b"", b"in\nside", b"a\x00b", b"\xff", b"two words"])
def test_a_token_file_that_is_no_token_is_named_and_a_corrected_one_taken(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "t"
    if content is not None:
        file.write_bytes(content)
    credentials = Kubeconfig(written(tmp_path / "config", config(user={"tokenFile": "t"})))
    with pytest.raises(Unreachable) as raised:
        said(credentials)
    assert str(file) in str(raised.value)
    assert "side" not in str(raised.value)
    file.write_text("good\n")
    assert said(credentials) == "Bearer good"


# ── exec plugins ──


PLUGIN = """
import json, os, sys, time
runs = open("{folder}/runs", "a"); runs.write("x"); runs.close()
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
open("{folder}/info", "w").write(json.dumps([info, sys.argv[1:], os.environ["MORE"]]))
print(json.dumps({{"apiVersion": info["apiVersion"], "kind": "ExecCredential",
    "status": json.load(open("{folder}/status"))}}))
"""


class Plugin:
    """A user whose plugin gives the `status` that stands in a file."""

    def __init__(self, folder: Path, **fields: Any) -> None:
        self._folder = folder
        program = folder / "plugin.py"
        program.write_text(PLUGIN.format(folder=folder))
        self.fields = {
            "apiVersion": V1,
            "command": sys.executable,
            "args": [str(program), "an argument"],
            "env": [{"name": "MORE", "value": "more"}],
            **fields,
        }

    def gives(self, **status: Any) -> None:
        (self._folder / "status").write_text(json.dumps(status))

    @property
    def runs(self) -> int:
        return len((self._folder / "runs").read_text())

    @property
    def told(self) -> Any:
        return json.loads((self._folder / "info").read_text())

    def credentials(self, **cluster: Any) -> Kubeconfig:
        content = config(cluster=cluster, user={"exec": self.fields})
        return Kubeconfig(written(self._folder / "config", content))


def in_one_loop(*steps: Callable[[], Any]) -> list[Any]:
    async def run() -> list[Any]:
        return [await step() for step in steps]

    return asyncio.run(run())


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
def test_a_plugin_is_asked_once_for_all_requests_until_its_token_expires(
    tmp_path: Path, version: str
) -> None:
    plugin = Plugin(tmp_path, apiVersion=version)
    credentials = plugin.credentials()

    async def several() -> set[str | None]:
        return set(await asyncio.gather(*(credentials.authorization() for _ in range(5))))

    plugin.gives(token="t", expirationTimestamp="2001-01-01T00:00:00Z")
    with pytest.raises(Unreachable):  # has expired already
        said(credentials)
    plugin = Plugin(tmp_path, apiVersion=version)
    credentials = plugin.credentials()
    plugin.gives(token="t", expirationTimestamp="2999-01-01T00:00:00Z")
    assert in_one_loop(several, several) == [{"Bearer t"}, {"Bearer t"}]
    assert plugin.runs == 2
    assert plugin.told == [
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}},
        ["an argument"],
        "more",
    ]


def test_a_plugin_is_asked_again_after_a_refusal_but_not_in_a_storm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = Plugin(tmp_path)
    credentials = plugin.credentials()
    plugin.gives(token="first")
    assert said(credentials) == "Bearer first"
    plugin.gives(token="second")
    credentials.refused()
    assert said(credentials) == "Bearer first"
    now = time.monotonic() + RETRY
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert in_one_loop(credentials.authorization) == ["Bearer second"]
    assert plugin.runs == 2


def test_a_plugins_certificate_is_presented(
    tmp_path: Path, authority: Authority, pair: CertificateFiles
) -> None:
    plugin = Plugin(tmp_path)
    credentials = plugin.credentials(**{"certificate-authority": str(authority.bundle)})
    plugin.gives(
        clientCertificateData=pair.certificate.read_text(), clientKeyData=pair.key.read_text()
    )
    assert said(credentials) is None
    assert presented(authority, context_of(credentials)) == "somebody"
    assert presented(authority, context_of(credentials, is_anonymous=True)) is None


def test_a_plugin_that_wants_it_is_told_of_the_cluster(
    tmp_path: Path, authority: Authority
) -> None:
    plugin = Plugin(tmp_path, provideClusterInfo=True)
    plugin.gives(token="t")
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"certificate-authority": str(authority.bundle), "extensions": [extension]}
    assert said(plugin.credentials(**cluster)) == "Bearer t"
    assert plugin.told[0]["spec"]["cluster"] == {
        "server": SERVER,
        "certificate-authority-data": base64_of(authority.bundle),
        "config": {"audience": "x"},
    }


@pytest.mark.parametrize(
    ("fields", "status", "told"),
    [
        ({"command": "no-such", "installHint": "get it\nthere"}, {}, "not installed; get it there"),
        ({"command": "false"}, {}, "exit status 1"),
        ({"command": "true"}, {}, "not JSON"),
        ({"command": "./here"}, {}, "not installed"),
        ({}, {}, "neither a token nor a client certificate"),
        ({}, {"token": "two\nlines"}, "control characters"),
        ({}, {"token": "t", "clientKeyData": "k"}, "need each other"),
        ({}, {"token": "t", "expirationTimestamp": "soon"}, "no time of RFC 3339"),
        ({}, {"clientCertificateData": "c", "clientKeyData": "k"}, "certificate"),
    ],
)
def test_a_plugin_that_fails_is_a_request_without_credentials(
    tmp_path: Path, fields: dict[str, Any], status: dict[str, Any], told: str
) -> None:
    plugin = Plugin(tmp_path, **fields)
    plugin.gives(**status)
    with pytest.raises(Unreachable) as raised:
        said(plugin.credentials())
    assert told in str(raised.value)


def test_a_plugin_that_hangs_is_not_awaited_beyond_the_request_and_ends_with_us(
    tmp_path: Path,
) -> None:
    plugin = Plugin(tmp_path, command="sh", args=["-c", f"echo $$ > {tmp_path}/pid; sleep 1000"])
    credentials = plugin.credentials()

    async def impatient() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await credentials.authorization()

    asyncio.run(impatient())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
