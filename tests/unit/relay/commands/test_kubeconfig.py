"""The kubeconfig that points to a relay, as clients read it."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from relay_sidecar.commands.kubeconfig import main
from tools.harness.controlplane.access.certificates import Authority


def printed(
    capsys: pytest.CaptureFixture[str], *arguments: str, environ: dict[str, str] | None = None
) -> dict[str, Any]:
    defaults = {"RELAY_SERVICE_ACCOUNT_DIR": "/nowhere"}
    assert main(list(arguments), defaults | (environ or {})) == 0
    told: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return told


def parts(told: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The current context's cluster, user and context."""
    [context] = [it for it in told["contexts"] if it["name"] == told["current-context"]]
    [cluster] = [it for it in told["clusters"] if it["name"] == context["context"]["cluster"]]
    [user] = [it for it in told["users"] if it["name"] == context["context"]["user"]]
    return cluster["cluster"], user["user"], context["context"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments), {"RELAY_SERVICE_ACCOUNT_DIR": "/nowhere"}) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return Authority(tmp_path, "ca").issue_server("relay", hosts=["127.0.0.1"]).certificate


def test_by_default_it_is_the_relay_on_localhost(capsys: pytest.CaptureFixture[str]) -> None:
    cluster, user, context = parts(printed(capsys))
    assert cluster == {"server": "http://127.0.0.1:10550"}
    assert user == {}
    assert "namespace" not in context


@pytest.mark.parametrize(
    ("listen", "server"),
    [
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        (":1", "http://127.0.0.1:1"),
        ("[::]:1", "http://[::1]:1"),
        ("[::1]:1", "http://[::1]:1"),
        ("10.0.0.1:1", "http://10.0.0.1:1"),
    ],
)
def test_it_is_the_relays_own_address_by_flag_or_twin(
    capsys: pytest.CaptureFixture[str], listen: str, server: str
) -> None:
    assert parts(printed(capsys, "--listen", listen))[0]["server"] == server
    environ = {"RELAY_LISTEN": listen}
    assert parts(printed(capsys, environ=environ))[0]["server"] == server


def test_with_tls_the_certificate_is_the_authority_unless_one_is_named(
    capsys: pytest.CaptureFixture[str], certificate: Path
) -> None:
    cluster, _, _ = parts(printed(capsys, "--tls-cert-file", str(certificate)))
    assert cluster["server"] == "https://127.0.0.1:10550"
    assert base64.b64decode(cluster["certificate-authority-data"]) == certificate.read_bytes()
    authority = certificate.parent / "ca.crt"
    flags = ["--tls-cert-file", str(certificate), "--certificate-authority", str(authority)]
    cluster, _, _ = parts(printed(capsys, *flags))
    assert base64.b64decode(cluster["certificate-authority-data"]) == authority.read_bytes()


def test_a_token_is_named_by_its_file(
    capsys: pytest.CaptureFixture[str], certificate: Path
) -> None:
    tls = ["--tls-cert-file", str(certificate)]
    _, user, _ = parts(printed(capsys, *tls, "--local-token-file", "/run/token"))
    assert user == {"tokenFile": "/run/token"}
    _, user, _ = parts(printed(capsys, *tls, "--access=caller", "--service-account-dir=/sa"))
    assert user == {"tokenFile": "/sa/token"}


def test_over_tls_there_is_a_user_for_whom_kubectl_would_ask(
    capsys: pytest.CaptureFixture[str], certificate: Path
) -> None:
    _, user, _ = parts(printed(capsys, "--tls-cert-file", str(certificate)))
    assert user == {"username": "relay"}


def test_a_token_over_http_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--local-token-file", "/t"], {"RELAY_SERVICE_ACCOUNT_DIR": "/nowhere"}) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)
    assert "--tls-cert-file" in told.err


def test_the_namespace_is_the_flags_or_the_pods(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "namespace").write_text("from-file")
    folder = ["--service-account-dir", str(tmp_path)]
    pod = {"POD_NAMESPACE": "pods"}
    assert parts(printed(capsys, *folder))[2]["namespace"] == "from-file"
    assert parts(printed(capsys, *folder, environ=pod))[2]["namespace"] == "pods"
    flags = [*folder, "--namespace", "named"]
    assert parts(printed(capsys, *flags, environ=pod))[2]["namespace"] == "named"


def test_it_is_written_whole_into_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Images for pods have no shell to redirect."""
    path = tmp_path / "kubeconfig"
    path.write_text("old")
    assert main(["-o", str(path)], {"RELAY_SERVICE_ACCOUNT_DIR": "/nowhere"}) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(path.read_text())["kind"] == "Config"
    assert os.listdir(tmp_path) == ["kubeconfig"]


@pytest.mark.parametrize(
    ("arguments", "value", "remedy"),
    [
        (["--listn=x"], "--listn", "did you mean --listen?"),
        (["--listen=10550"], "'10550'", "127.0.0.1:8080"),
        (["--access=all"], "--access 'all'", "own, caller"),
        (["--url=https://relay"], "https://relay", "--tls-cert-file"),
        (["--tls-cert-file=/nowhere/tls.crt"], "/nowhere/tls.crt", "PEM"),
        (["--tls-cert-file=/dev/null"], "/dev/null", "PEM"),
        (["-o", "/nowhere/kubeconfig"], "/nowhere/kubeconfig", "folder that is there"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    capsys: pytest.CaptureFixture[str], arguments: list[str], value: str, remedy: str
) -> None:
    line = refused(capsys, *arguments)
    assert value in line
    assert remedy in line
