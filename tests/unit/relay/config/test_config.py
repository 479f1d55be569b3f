"""What the relay's command line and its env twins say, and what is refused how."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import (
    Address,
    BadInput,
    address,
    api_server_url,
    host_name,
    seconds,
    size,
)
from relay_sidecar.config.config import Config, load, parser
from relay_sidecar.config.preload import parse_preload

POD = {"POD_NAMESPACE": "ns", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
TLS = ["--tls-cert-file=/c", "--tls-private-key-file=/k"]


def loaded(*flags: str, environ: Mapping[str, str] | None = None) -> Config:
    return load(flags, POD | dict(environ or {}))


def refusal(*flags: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(BadInput) as raised:
        loaded(*flags, environ=environ)
    message = str(raised.value)
    assert "\n" not in message
    return message


# ── texts ──


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("15", 15.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("7d", 604800.0),
        ("1d12h", 129600),
    ],
)
def test_durations_read_as_in_go_and_in_days(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4Mi", 4 * 1024**2), ("512Ki", 512 * 1024), ("500k", 500_000), ("1Gi", 1024**3)],
)
def test_sizes_read_as_quantities(text: str, value: int) -> None:
    assert size(text) == value


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("127.0.0.1:10550", Address("127.0.0.1", 10550), "127.0.0.1:10550"),
        (":10550", Address("", 10550), ":10550"),
        ("LOCALHOST:0", Address("localhost", 0), "localhost:0"),
        ("[::1]:10550", Address("::1", 10550), "[::1]:10550"),
    ],
)
def test_addresses_read_and_print(text: str, value: Address, told: str) -> None:
    assert address(text) == value
    assert str(value) == told


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_loopback_is_what_no_other_machine_reaches(host: str, is_loopback: bool) -> None:
    assert Address(host, 1).is_loopback is is_loopback


@pytest.mark.parametrize("text", ["h:1", "a/b", "a b", "", "ä", "http://h"])
def test_what_cannot_stand_in_a_host_header_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="without a port"):
        host_name(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Kubernetes.Default.svc", "kubernetes.default.svc"),
        ("[FD00::1]", "fd00::1"),
        ("a_b", "a_b"),
    ],
)
def test_host_names_are_told_in_one_spelling(text: str, value: str) -> None:
    assert host_name(text) == value


@pytest.mark.parametrize("text", ["h", "127.0.0.1:6443", "h/path"])
def test_a_url_without_a_scheme_is_shown_with_that_of_the_flag(text: str) -> None:
    with pytest.raises(BadInput, match=f"'{text}' is not a URL: write https://{text}$"):
        api_server_url(text)


# ── order of look-up ──


def test_a_flag_beats_its_env_twin_and_both_beat_the_default() -> None:
    environ = {"RELAY_READ_TIMEOUT": "2s"}
    assert loaded().read_timeout == 1
    assert loaded(environ=environ).read_timeout == 2
    assert loaded("--read-timeout", "3s", environ=environ).read_timeout == 3


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("LISTEN", "127.0.0.1:1", "listen", Address("127.0.0.1", 1)),
        ("STATUS_LISTEN", ":1", "status_listen", Address("", 1)),
        ("SERVER", "https://h:1", "server", "https://h:1"),
        ("KUBECONFIG", "/k", "kubeconfig", Path("/k")),
        ("SERVICE_ACCOUNT_DIR", "/sa", "service_account_dir", Path("/sa")),
        ("REQUEST_TIMEOUT", "7s", "request_timeout", 7.0),
        ("READ_TIMEOUT", "7s", "read_timeout", 7.0),
        ("PROBE_INTERVAL", "7s", "probe_interval", 7.0),
        ("DATA_DIR", "/d", "data_dir", Path("/d")),
        ("DATA_DIR", "memory", "data_dir", None),
        ("READS", "cache", "reads_upstream", False),
        ("PRELOAD", "pods", "preload", (parse_preload("pods"),)),
        ("IDLE_TIMEOUT", "1m", "idle_timeout", 60.0),
        ("RETAIN", "1d", "retain", 86400.0),
        ("MAX_OBJECTS", "5", "max_objects", 5),
        ("MAX_WATCHERS", "5", "max_watchers", 5),
        ("WATCH_BUFFER", "1Mi", "watch_buffer", 1024**2),
        ("ACCESS", "caller", "asks_callers", True),
        ("LOCAL_TOKEN_FILE", "/t", "local_token_file", Path("/t")),
        ("ALLOWED_HOST", "Kube.svc", "allowed_hosts", ("kube.svc",)),
        ("LOG_FORMAT", "json", "log_format", "json"),
        ("LOG_LEVEL", "debug", "log_level", "debug"),
    ],
)
def test_every_flag_has_an_env_twin_that_reads_the_same(
    name: str, text: str, field: str, value: object
) -> None:
    flag = f"--{name.lower().replace('_', '-')}={text}"
    from_environ = loaded(environ={f"RELAY_{name}": text})
    assert getattr(from_environ, field) == value
    assert from_environ == loaded(flag)


def test_a_context_of_the_kubeconfig_is_told_by_flag_and_twin() -> None:
    from_environ = loaded("--kubeconfig=/k", environ={"RELAY_CONTEXT": "c"})
    assert from_environ.context == "c"
    assert from_environ == loaded("--kubeconfig=/k", "--context=c")


@pytest.mark.parametrize("name", ["ACCESS_TTL", "ACCESS_OFFLINE_TTL"])
def test_how_long_decisions_stand_is_told_by_flag_and_twin(name: str) -> None:
    flag = f"--{name.lower().replace('_', '-')}=2h"
    flags = (
        ["--access=caller"]
        if name == "ACCESS_OFFLINE_TTL"
        else [
            "--access=caller",
            "--access-offline-ttl=3h",
        ]
    )
    config = loaded(*flags, flag)
    assert getattr(config, name.lower()) == 7200
    assert loaded(*flags, environ={f"RELAY_{name}": "2h"}) == config


def test_what_may_be_repeated_is_one_text_in_the_environment() -> None:
    from_flags = loaded("--preload=pods", "--preload=nodes", "--allowed-host=a", "--allowed-host=b")
    twins = {"RELAY_PRELOAD": "pods\n  nodes ", "RELAY_ALLOWED_HOST": "a b"}
    assert from_flags == loaded(environ=twins)
    assert len(from_flags.preload) == len(from_flags.allowed_hosts) == 2


def test_every_flag_is_read() -> None:
    """Each is in a field of `Config` of its name, or says how another field is to be read."""
    renamed = {"reads": "reads_upstream", "access": "asks_callers"}
    renamed |= {"allowed_host": "allowed_hosts", "pool_resource": "pool_resources"}
    flags = set(vars(parser().parse_args([])))
    assert {renamed.get(name, name) for name in flags} <= {field.name for field in fields(Config)}


def test_what_a_service_named_relay_injects_is_ignored() -> None:
    injected = {
        "RELAY_PORT": "tcp://10.0.0.7:10550",
        "RELAY_SERVICE_HOST": "10.0.0.7",
        "RELAY_SERVICE_PORT": "10550",
        "RELAY_PORT_10550_TCP_ADDR": "10.0.0.7",
    }
    assert loaded(environ=injected) == loaded()


def test_an_empty_env_twin_is_none() -> None:
    empty = dict.fromkeys(parser().twins("RELAY_"), "")
    assert loaded(environ=empty) == loaded()


def test_the_defaults_are_those_of_a_sidecar() -> None:
    config = loaded()
    assert str(config.listen) == "127.0.0.1:10550"
    assert str(config.status_listen) == "127.0.0.1:10551"
    assert config.server == "https://10.0.0.1:443"
    assert config.data_dir == Path("/var/lib/relay-sidecar")
    assert config.reads_upstream
    assert not config.asks_callers
    assert (config.idle_timeout, config.retain) == (600, 604800)
    assert (config.request_timeout, config.read_timeout, config.probe_interval) == (5, 1, 1)
    assert (config.access_ttl, config.access_offline_ttl) == (60, 86400)
    assert config.warnings == ()


def test_the_server_is_the_pods_unless_named() -> None:
    ports = {"KUBERNETES_SERVICE_PORT": "6443", "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert loaded(environ=ports).server == "https://[fd00::1]:6443"
    assert loaded("--server", "http://127.0.0.1:8001").server == "http://127.0.0.1:8001"
    assert loaded("--kubeconfig", "/k").server is None


def test_the_namespace_is_the_pods_or_the_service_accounts(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("from-file\n")
    folder = ["--service-account-dir", str(tmp_path)]
    assert loaded(*folder).namespace == "ns"
    assert loaded(*folder, environ={"POD_NAMESPACE": ""}).namespace == "from-file"
    assert loaded("--service-account-dir=/nowhere", environ={"POD_NAMESPACE": ""}).namespace == ""


def test_a_namespace_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_bytes(b"\xff\xfe")
    folder = ["--service-account-dir", str(tmp_path)]
    assert "POD_NAMESPACE" in refusal(*folder, environ={"POD_NAMESPACE": ""})


# ── what is preloaded ──


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("pods", "/api/PREFERRED/pods"),
        ("pods.v1", "/api/v1/pods"),
        ("deployments.apps", "/apis/apps/PREFERRED/deployments"),
        ("widgets.v1.example.com", "/apis/example.com/v1/widgets"),
        ("widgets.v1beta2.example.com", "/apis/example.com/v1beta2/widgets"),
        ("nodes.metrics.k8s.io", "/apis/metrics.k8s.io/PREFERRED/nodes"),
        (
            "pods?fieldSelector=spec.nodeName=n1",
            "/api/PREFERRED/pods?fieldSelector=spec.nodeName=n1",
        ),
        (
            "pods?namespace=ns&labelSelector=d,a+in+(c,b)&fieldSelector=metadata.name!=x",
            "/api/PREFERRED/namespaces/ns/pods"
            "?labelSelector=a in (b,c),d&fieldSelector=metadata.name!=x",
        ),
        ("pods?labelSelector=a%3Db", "/api/PREFERRED/pods?labelSelector=a=b"),
    ],
)
def test_preloads_are_spelt_like_kubectls_resources_with_the_api_servers_query(
    text: str, path: str
) -> None:
    assert str(parse_preload(text).scope("PREFERRED")) == path


# ── bad input ──


@pytest.mark.parametrize(
    ("flags", "value", "remedy"),
    [
        (["--preload", "pods/status"], "'pods/status'", "deployments.apps"),
        (["--preload", "leases.coordination.k8s.io"], "'leases.c", "name another resource"),
        (["--preload", "leasecandidates.v1beta1.coordination.k8s.io"], "never kept", "another"),
        (["--preload", "a..b"], "'a..b'", "deployments.apps"),
        (["--preload", "pods?limit=1"], "'limit'", "labelSelector, fieldSelector"),
        (["--preload", "pods?labelSelector=a=b=c"], "'pods?labelSelector=a=b=c'", "found '='"),
        (["--preload", "pods?fieldSelector=a"], "'pods?fieldSelector=a'", "invalid selector"),
        (["--preload", "pods?namespace=a&namespace=b"], "'namespace'", "given twice"),
        (["--preload", "pods?namespace=../x"], "'../x'", "not a namespace"),
        (["--listen", ":10550"], "--listen :10550", "use --access caller"),
        (["--listen", "10.0.0.7:1", *TLS], "--listen 10.0.0.7:1", "listen on 127.0.0.1"),
        (["--listen", ":1", "--access=caller"], "--listen :1", "add --tls-cert-file"),
        (["--access=caller", "--server=http://10.0.0.1"], "http://10.0.0.1", "use https"),
        (["--access=caller", "--access-ttl=25h"], "--access-offline-ttl 86400s", "raise it"),
        (["--access=caller", "--local-token-file=/t"], "--local-token-file /t", "drop one"),
        (["--server=https://127.0.0.1:10550"], "https://127.0.0.1:10550", "itself"),
        (["--server=http://localhost:10550"], "http://localhost:10550", "itself"),
        (
            ["--client-certificate=/c", "--server=http://h"],
            "--client-certificate /c",
            "https --server",
        ),
        (
            ["--client-certificate=/c", "--kubeconfig=/k", "--server=https://h"],
            "--client-certificate /c",
            "drop one",
        ),
        (["--client-key=/c"], "--client-key", "needs --client-certificate"),
        (["--certificate-authority=/c"], "--certificate-authority", "needs --client-certificate"),
        (["--client-ca-file=/c"], "--client-ca-file /c", "needs --access caller"),
        (["--access=caller", "--client-ca-file=/c"], "--client-ca-file /c", "--tls-cert-file"),
        (["--pod-listen=127.0.0.1:1"], "--pod-listen 127.0.0.1:1", "needs --access caller"),
        (["--access=caller", "--pod-listen=10.0.0.1:1"], "10.0.0.1:1", "--tls-cert-file"),
        (["--access=caller", "--pod-listen=127.0.0.1:10550"], "127.0.0.1:10550", "another"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    flags: list[str], value: str, remedy: str
) -> None:
    message = refusal(*flags)
    assert value in message
    assert remedy in message


@pytest.mark.parametrize(
    ("environ", "value", "remedy"),
    [
        ({"KUBERNETES_SERVICE_HOST": ""}, "no API server", "--kubeconfig"),
        ({"RELAY_LISTEN": "0.0.0.0:1"}, "--listen 0.0.0.0:1", "--access caller"),
        ({"POD_NAMESPACE": "../x"}, "'../x'", "POD_NAMESPACE"),
    ],
)
def test_what_the_environment_says_is_checked_as_flags_are(
    environ: dict[str, str], value: str, remedy: str
) -> None:
    message = refusal(environ=environ)
    assert value in message
    assert remedy in message


def test_callers_may_come_from_elsewhere_with_their_tokens_over_tls() -> None:
    config = loaded("--listen=:10550", "--access=caller", *TLS)
    assert not config.listen.is_loopback
    assert config.warnings == ()


@pytest.mark.parametrize("flag", ["--access=caller", "--local-token-file=/t"])
def test_tokens_over_http_are_warned_of_because_go_clients_send_none(flag: str) -> None:
    assert "--tls-cert-file" in loaded(flag).warnings[0]
    assert loaded(flag, *TLS).warnings == ()


# ── the pool ──

POOL = ["--pool=http://127.0.0.1:10553", "--pool-token-file=/t"]


def test_a_pool_needs_its_url_and_token() -> None:
    config = loaded(*POOL)
    assert config.pool == "http://127.0.0.1:10553"
    assert config.pool_token_file == Path("/t")
    assert config.pool_connect == Address("127.0.0.1", 10554)
    assert loaded().pool is None


def test_endpoint_view_is_a_listener_of_its_own_on_loopback() -> None:
    assert loaded(*POOL).endpoint_view is None
    config = loaded(*POOL, "--endpoint-view=127.0.0.1:10556")
    assert config.endpoint_view == Address("127.0.0.1", 10556)


def test_services_and_endpoint_slices_come_from_the_pool_unless_told_otherwise() -> None:
    assert [it.plural for it in loaded(*POOL).shared] == ["services", "endpointslices"]
    assert loaded(*POOL, "--pool-resource=none").shared == ()
    assert loaded().shared == ()
    assert loaded(*POOL).pool_listen is None


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (POOL[:1], "--pool http://127.0.0.1:10553 needs --pool-token-file"),
        (POOL[1:], "--pool-token-file /t needs --pool"),
        (["--pool-connect=127.0.0.1:1"], "--pool-connect 127.0.0.1:1 needs --pool"),
        ([*POOL, "--pool-connect=10.0.0.1:1"], "'10.0.0.1:1': only processes of this node"),
        (["--pool-listen=127.0.0.1:1"], "--pool-listen 127.0.0.1:1 needs --pool"),
        (["--pool-resource=services"], "--pool-resource services needs --pool"),
        ([*POOL, "--pool-listen=10.0.0.1:1"], "'10.0.0.1:1': only processes of this node"),
        ([*POOL, "--pool-listen=127.0.0.1:10550"], "is taken by --listen"),
        ([*POOL, "--pool-resource=secrets"], "'secrets' is never taken from a neighbour"),
        ([*POOL, "--pool-resource=none", "--pool-resource=services"], "none beside others"),
        (["--pool=https://127.0.0.1:1", POOL[1]], "asked over http on loopback, like"),
        (["--pool=http://10.0.0.1:1", POOL[1]], "asked over http on loopback, like"),
        ([*POOL, "--server=http://127.0.0.1:1"], "a neighbour would see what is sent"),
        (["--endpoint-view=127.0.0.1:1"], "--endpoint-view 127.0.0.1:1 needs --pool"),
        ([*POOL, "--endpoint-view=10.0.0.1:1"], "'10.0.0.1:1': only processes of this node"),
        (
            [*POOL, "--endpoint-view=127.0.0.1:10550"],
            "--endpoint-view 127.0.0.1:10550 is taken by --listen",
        ),
        (
            [*POOL, "--endpoint-view=127.0.0.1:7", "--server=https://127.0.0.1:7"],
            "upstream https://127.0.0.1:7 is this relay itself",
        ),
    ],
)
def test_a_pool_that_cannot_be_is_refused(flags: list[str], told: str) -> None:
    assert told in refusal(*flags)
