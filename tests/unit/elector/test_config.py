"""What the command line, its env twins and contrib's flags say, and what is refused how."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from elector_sidecar.config.config import Address, BadInput, Config, address, load, seconds

POD = {
    "POD_NAME": "gm-0",
    "POD_NAMESPACE": "ns",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
}


def loaded(*flags: str, environ: Mapping[str, str] | None = None) -> Config:
    names = {flag.partition("=")[0].lstrip("-") for flag in flags}
    lease = [] if names & {"lease", "election"} else ["--lease", "x"]
    return load([*lease, *flags], POD | dict(environ or {}), hostname="host")


# ── texts ──


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("15", 15.0),
        ("15s", 15.0),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1h", 3600.0),
        ("2h0m1s", 7201.0),
    ],
)
def test_durations_read_as_in_go(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "s", "-1s", "+1s", "1 s", "1,5s", "1e3", "nan", "inf", "5w", "s5", "1.s"],
        *["٣s", "1s\n", "9" * 400],
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match="15s, 500ms or 1m30s"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "value", "told"),
    [
        ("127.0.0.1:4040", Address("127.0.0.1", 4040), "127.0.0.1:4040"),
        (":4040", Address("", 4040), ":4040"),
        ("localhost:0", Address("localhost", 0), "localhost:0"),
        ("[::1]:4040", Address("::1", 4040), "[::1]:4040"),
        ("unix:/run/e.sock", Address("", 0, "/run/e.sock"), "unix:/run/e.sock"),
    ],
)
def test_addresses_read_and_print(text: str, value: Address, told: str) -> None:
    assert address(text) == value
    assert str(value) == told


@pytest.mark.parametrize(
    "text",
    [
        *["", "4040", "host", "host:", "host:http", "host:65536", "host:-1", "unix:", "unix:run"],
        *["h:" + "9" * 5000, "h:²"],
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="unix:/"):
        address(text)


# ── what has no meaning ──


@pytest.mark.parametrize(
    ("flags", "needed"),
    [
        (["--health-interval", "2s"], "--health-url"),
        (["--health-grace", "1m"], "--health-url"),
        (["--drain-timeout", "3s"], "--drain-url"),
        (["--shard-settle", "1s"], "--shards"),
        (["--context", "c"], "--kubeconfig"),
        (["--socket-mode", "0600"], "--listen unix:/PATH"),
    ],
)
def test_what_says_nothing_without_another_flag_is_refused(flags: list[str], needed: str) -> None:
    with pytest.raises(BadInput) as refused:
        loaded(*flags)
    assert str(refused.value).startswith(f"{' '.join(flags)} needs {needed}")


def test_a_message_names_the_variable_from_which_the_value_came() -> None:
    with pytest.raises(BadInput, match="--lease-duration is from ELECTOR_LEASE_DURATION"):
        loaded(environ={"ELECTOR_LEASE_DURATION": "1s"})
    with pytest.raises(BadInput) as refused:
        loaded("--lease-duration", "1s", environ={"ELECTOR_LEASE_DURATION": "20s"})
    assert "ELECTOR_" not in str(refused.value)


# ── order of look-up ──


def test_a_flag_beats_its_env_twin_and_both_beat_the_default() -> None:
    environ = {"ELECTOR_LEASE_DURATION": "20s"}
    assert loaded().timing.lease_duration == 15
    assert loaded(environ=environ).timing.lease_duration == 20
    assert loaded("--lease-duration", "30s", environ=environ).timing.lease_duration == 30


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("LEASE", "from-env", "lease", "from-env"),
        ("NAMESPACE", "other", "namespace", "other"),
        ("IDENTITY", "me", "identity", "me"),
        ("ON_MISSING", "take", "take_missing", True),
        ("LISTEN", "unix:/e.sock", "listen", Address("", 0, "/e.sock")),
        ("SOCKET_MODE", "0600", "socket_mode", 0o600),
        ("PROBE_LISTEN", ":4041", "probe_listen", Address("", 4041)),
        ("HEALTH_URL", "http://h/z", "health_url", "http://h/z"),
        ("HEALTH_INTERVAL", "2s", "health_interval", 2.0),
        ("HEALTH_FAILURES", "5", "health_failures", 5),
        ("HEALTH_GRACE", "1m", "health_grace", 60.0),
        ("HEALTH_BACKOFF", "1s", "health_backoff", 1.0),
        ("DRAIN_URL", "http://h/d", "drain_url", "http://h/d"),
        ("DRAIN_TIMEOUT", "3s", "drain_timeout", 3.0),
        ("RELEASE_ON_TERM", "true", "release_on_term", True),
        ("RELEASE_ON_TERM", "no", "release_on_term", False),
        ("NOTIFY_URL", "http://h/n", "notify_url", "http://h/n"),
        ("LEADER_LABEL", "e.io/role=leader", "leader_label", ("e.io/role", "leader")),
        ("KUBECONFIG", "/k", "kubeconfig", Path("/k")),
        ("SERVER", "https://h:1", "server", "https://h:1"),
        ("SERVICE_ACCOUNT_DIR", "/sa", "service_account_dir", Path("/sa")),
        ("LOG_FORMAT", "json", "log_format", "json"),
        ("LOG_LEVEL", "debug", "log_level", "debug"),
    ],
)
def test_every_flag_has_an_env_twin_that_reads_the_same(
    name: str, text: str, field: str, value: object
) -> None:
    # What gives the others a meaning.
    others = {"ELECTOR_HEALTH_URL": "http://h", "ELECTOR_DRAIN_URL": "http://h"}
    others |= {"ELECTOR_LEASE": "x", "ELECTOR_LISTEN": "unix:/e.sock"}
    from_environ = load([], POD | others | {f"ELECTOR_{name}": text}, hostname="host")
    flag = f"--{name.lower().replace('_', '-')}={text}"
    from_flag = load([flag], POD | others, hostname="host")
    assert getattr(from_environ, field) == value
    assert from_environ == from_flag


def test_a_context_of_the_kubeconfig_can_be_named_by_flag_and_twin() -> None:
    environ = POD | {"ELECTOR_LEASE": "x", "ELECTOR_KUBECONFIG": "/k", "ELECTOR_CONTEXT": "c"}
    from_environ = load([], environ, hostname="host")
    assert from_environ.context == "c"
    assert from_environ == loaded("--kubeconfig=/k", "--context=c", environ=environ)


def test_what_a_service_named_elector_injects_is_ignored() -> None:
    injected = {
        "ELECTOR_PORT": "tcp://10.0.0.7:4040",
        "ELECTOR_SERVICE_HOST": "10.0.0.7",
        "ELECTOR_SERVICE_PORT": "4040",
        "ELECTOR_PORT_4040_TCP_ADDR": "10.0.0.7",
    }
    assert loaded(environ=injected) == loaded()


def test_an_empty_env_twin_is_none() -> None:
    empty = dict.fromkeys(
        ("ELECTOR_HEALTH_URL", "ELECTOR_LEASE_DURATION", "ELECTOR_LISTEN", "ELECTOR_ON_MISSING"), ""
    )
    assert loaded(environ=empty) == loaded()


def test_the_identity_is_the_flags_the_pods_or_the_hosts() -> None:
    assert loaded("--identity", "me").identity == "me"
    assert loaded().identity == "gm-0"
    assert loaded(environ={"POD_NAME": ""}).identity == "host"


def test_the_namespace_is_the_flags_the_pods_or_the_service_accounts(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("from-file\n")
    folder = ["--service-account-dir", str(tmp_path)]
    assert loaded("--namespace", "flag", *folder).namespace == "flag"
    assert loaded(*folder).namespace == "ns"
    assert loaded(*folder, environ={"POD_NAMESPACE": ""}).namespace == "from-file"


def test_with_a_kubeconfig_its_context_may_tell_the_namespace(tmp_path: Path) -> None:
    flags = ["--kubeconfig", "/k", "--service-account-dir", str(tmp_path)]
    assert loaded(*flags, environ={"POD_NAMESPACE": ""}).namespace == ""


def test_the_server_is_the_pods_unless_named() -> None:
    assert loaded().server == "https://10.0.0.1:443"
    ports = {"KUBERNETES_SERVICE_PORT": "6443", "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert loaded(environ=ports).server == "https://[fd00::1]:6443"
    assert loaded("--server", "http://127.0.0.1:8001").server == "http://127.0.0.1:8001"


# ── contrib's flags ──


@pytest.mark.parametrize("dash", ["-", "--"])
@pytest.mark.parametrize("joint", ["=", " "])
def test_contribs_flags_mean_ours(dash: str, joint: str) -> None:
    texts = ["election=x", "election-namespace=old", "id=gm-7", "ttl=10s", "http=:5050"]
    flags: list[str] = []
    for text in texts:
        flags += (dash + text.replace("=", joint, 1)).split(" ")
    config = loaded(*flags, f"{dash}use-cluster-credentials=true")
    assert (config.lease, config.namespace, config.identity) == ("x", "old", "gm-7")
    assert config.timing.lease_duration == 10
    assert config.contrib_listen == Address("", 5050)
    assert config.warnings == ()


def test_contribs_listener_stands_in_the_place_of_the_default_one() -> None:
    """Its examples listen on 4040, where ours would stand in the way."""
    config = loaded("--election=x", "--http=localhost:4040")
    assert config.listen is None
    both = loaded("--election=x", "--http=localhost:4040", "--listen=127.0.0.1:4050")
    assert both.listen == Address("127.0.0.1", 4050)
    assert both.contrib_listen == Address("localhost", 4040)


@pytest.mark.parametrize(
    ("ttl", "duration", "warning"),
    [
        ("10s", 10.0, None),
        ("3s", 3.0, None),
        ("1s", 3.0, "--ttl 1s was raised to 3s"),
        ("500ms", 3.0, "--ttl 0.5s was raised to 3s"),
        ("4.2s", 5.0, "--ttl 4.2s was raised to 5s"),
    ],
)
def test_a_short_ttl_is_raised_with_a_warning(
    ttl: str, duration: float, warning: str | None
) -> None:
    config = loaded(f"--ttl={ttl}")
    assert config.timing.lease_duration == duration
    assert config.warnings == (() if warning is None else (warning,))


def test_contribs_flags_beat_our_variables_as_every_flag_does() -> None:
    environ = {"ELECTOR_LEASE": "twin", "ELECTOR_LEASE_DURATION": "20s"}
    config = load(["--election=old", "--ttl=10s"], {**environ, **POD}, hostname="h")
    assert config.lease == "old"
    assert config.timing.lease_duration == 10


# ── outside of a pod ──


def _on_a_laptop(home: Path, *flags: str, **environ: str) -> Config:
    told = {"HOME": str(home), **environ}
    return load(["--lease=l", "--namespace=n", *flags], told, hostname="laptop")


def test_outside_of_a_pod_a_kubeconfig_is_found_as_kubectl_finds_it(tmp_path: Path) -> None:
    usual = tmp_path / ".kube/config"
    usual.parent.mkdir()
    usual.touch()
    found = _on_a_laptop(tmp_path)
    assert (found.kubeconfig, found.kubeconfig_from) == (usual, "~/.kube/config")
    found = _on_a_laptop(tmp_path, KUBECONFIG="/k:/l")
    assert (found.kubeconfig, found.kubeconfig_from) == (Path("/k:/l"), "$KUBECONFIG")
    assert _on_a_laptop(tmp_path, "--context=c").context == "c"
    found = _on_a_laptop(tmp_path, "--kubeconfig=/own", KUBECONFIG="/k")
    assert (found.kubeconfig, found.kubeconfig_from) == (Path("/own"), "--kubeconfig")


@pytest.mark.parametrize("flags", [["--server=http://127.0.0.1:1"], ["--use-cluster-credentials"]])
def test_who_names_a_server_or_the_pods_account_gets_no_other(
    flags: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube/config").touch()
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert _on_a_laptop(tmp_path, *flags, **pod).kubeconfig is None
    assert _on_a_laptop(tmp_path, **pod, KUBECONFIG="/k").kubeconfig is None


def test_outside_of_a_pod_without_a_kubeconfig_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"neither \$KUBECONFIG nor ~/.kube/config; name a --kubec"):
        _on_a_laptop(tmp_path)


# ── bad input ──

BAD = [
    (
        ["--probe-listen", "0.0.0.0:4040"],
        "--probe-listen 0.0.0.0:4040 is taken by --listen 127.0.0.1:4040",
        "choose another port",
    ),
    (
        ["--http", "localhost:80", "--probe-listen", "[::1]:80"],
        "--probe-listen [::1]:80 is taken by --http localhost:80",
        "choose another port",
    ),
    (["--shards", "3", "--shard-settle", "-1s"], "--shard-settle '-1s'", "write it like 15s"),
    (["--release-on-term=perhaps"], "--release-on-term 'perhaps'", "write true or false"),
    (["--leese", "x"], "--leese", "--lease"),
    (["--lease-duration"], "--lease-duration", "write --lease-duration DURATION"),
    (["extra"], "extra", "--help"),
    (["--lease", "Upper"], "'Upper'", "lower-case"),
    (["--lease", "a..b"], "'a..b'", "lower-case"),
    (["--lease", "x" * 254], "x" * 254, "lower-case"),
    (["--lease", "a/../b"], "'a/../b'", "lower-case"),
    (["--namespace", "../kube-system"], "'../kube-system'", "lower-case"),
    (["--namespace", "n" * 64], "n" * 64, "lower-case"),
    (["--identity", "two\r\nlines"], r"'two\r\nlines'", "pod's name"),
    (["--identity", "i" * 254], "i" * 254, "pod's name"),
    (["--lease-duration", "abc"], "--lease-duration 'abc'", "15s"),
    (["--lease-duration", "2s"], "--lease-duration 2s", "3s"),
    (["--lease-duration", "4.5s"], "--lease-duration 4.5s", "use 4s"),
    (["--lease-duration", "5s"], "--lease-duration 5s x 0.95 = 4.75s", "raise --lease-duration"),
    (["--renew-interval", "0.5s"], "--renew-interval 0.5s", "1s"),
    (["--request-timeout", "0"], "--request-timeout 0s", "positive"),
    (["--on-missing", "maybe"], "--on-missing 'maybe'", "wait, take"),
    (["--listen", "4040"], "--listen '4040'", "127.0.0.1:8080"),
    (["--probe-listen", "h:99999"], "--probe-listen 'h:99999'", "host:port"),
    (["--http", "x"], "--http 'x'", "host:port"),
    (["--ttl", "x"], "--ttl 'x'", "15s"),
    (["--health-url", "localhost/z"], "--health-url 'localhost/z'", "write http://localhost/z"),
    (["--health-url", "http://h:99999/"], "--health-url 'http://h:99999/'", "http://"),
    (["--health-url", "http://:80/"], "--health-url 'http://:80/'", "http://"),
    (["--health-url", "http://[::1/"], "--health-url 'http://[::1/'", "http://"),
    (["--health-url", "file:///etc/passwd"], "'file:///etc/passwd'", "http://"),
    (["--health-failures", "0"], "--health-failures 0", "at least 1"),
    (["--socket-mode", "rw-rw----"], "rw-rw----", "like 0660"),
    (["--socket-mode", "4777"], "4777", "like 0660"),
    (["--health-failures", "9" * 5000], "--health-failures '999", "whole number"),
    (["--health-failures", "1.5"], "--health-failures '1.5'", "whole number"),
    (["--health-interval", "0"], "--health-interval 0s", "positive"),
    (["--drain-url", "http://a b/"], "--drain-url 'http://a b/'", "http://"),
    (["--release-on-term=maybe"], "--release-on-term 'maybe'", "true or false"),
    (["--leader-label", "role"], "--leader-label 'role'", "KEY=VALUE"),
    (["--leader-label", "a b=c"], "--leader-label 'a b=c'", "KEY=VALUE"),
    (["--server", "10.0.0.1"], "--server '10.0.0.1'", "write https://10.0.0.1"),
    (["--log-format", "xml"], "--log-format 'xml'", "text, json"),
    (["--log-level", "loud"], "--log-level 'loud'", "info, debug"),
    (["--kubeconfig", "/k", "--use-cluster-credentials"], "--kubeconfig", "drop one"),
    (["--context", "c"], "--context c", "needs --kubeconfig"),
    (["--lease=a", "--election=b"], "--lease 'a' and --election 'b'", "drop --election"),
    (["--lease-duration=20s", "--ttl=10s"], "--ttl '10s'", "drop --ttl"),
    (["--identity=a", "--id=a"], "--identity 'a' and --id 'a'", "drop --id"),
    (["--namespace=a", "--election-namespace=b"], "'b'", "drop --election-namespace"),
    (["--election=a", "--lease-file=/f"], "--lease 'a' and --lease-file", "drop one"),
]


@pytest.mark.parametrize(("flags", "value", "remedy"), BAD)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(
    flags: list[str], value: str, remedy: str
) -> None:
    with pytest.raises(BadInput) as raised:
        loaded(*flags)
    message = str(raised.value)
    assert value in message
    assert remedy in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("environ", "value", "remedy"),
    [
        ({}, "--lease is required", "--lease my-controller"),
        ({"ELECTOR_LEASE": "x", "POD_NAMESPACE": ""}, "--namespace is missing", "POD_NAMESPACE"),
        ({"ELECTOR_LEASE": "x", "KUBERNETES_SERVICE_HOST": ""}, "no API server", "--kubeconfig"),
        (
            {"ELECTOR_LEASE": "x", "POD_NAME": "", "ELECTOR_LEADER_LABEL": "a=b"},
            "--leader-label",
            "POD_NAME",
        ),
    ],
)
def test_what_is_missing_is_one_line_that_names_the_remedy(
    environ: dict[str, str], value: str, remedy: str, tmp_path: Path
) -> None:
    nowhere = {"ELECTOR_SERVICE_ACCOUNT_DIR": str(tmp_path)}
    with pytest.raises(BadInput) as raised:
        load([], POD | nowhere | environ, hostname="host")
    assert value in str(raised.value)
    assert remedy in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_namespace_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="name the --namespace"):
        loaded("--service-account-dir", str(tmp_path), environ={"POD_NAMESPACE": ""})


def test_a_namespace_from_a_kubeconfig_is_checked_too() -> None:
    config = loaded("--kubeconfig", "/k")
    with pytest.raises(BadInput, match="lower-case"):
        replace(config, namespace="../x")


# ── a Lease that is named later ──


def test_a_lease_may_be_named_by_a_file() -> None:
    config = load(["--lease-file=/pool/lease"], POD, hostname="host")
    assert (config.lease, config.lease_file) == ("", Path("/pool/lease"))


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--lease=x"], "'x' and --lease-file exclude each other"),
        (["--shards=4"], "--lease-file /pool/lease and --shards exclude each other"),
        (["--release-on-term"], "use --drain-url"),
    ],
)
def test_what_contradicts_a_lease_file_is_refused(flags: list[str], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        load(["--lease-file=/pool/lease", *flags], POD, hostname="host")


# ── shards ──


def test_shards_contend_for_a_lease_of_their_own() -> None:
    config = loaded("--shards=64", environ={"POD_UID": "7c6f1b3e-55cf-4d0a-9f3d-6f1e4ad2b111"})
    assert (config.lease, config.member_lease, config.shards) == ("x", "x-gm-0", 64)
    assert config.shard_settle == 5.0
    assert loaded().member_lease == "x"


@pytest.mark.parametrize(
    ("flags", "environ", "told"),
    [
        (["--shards=0"], {}, "2 to 256"),
        (["--shards=1"], {}, "drop the flag"),
        (["--shards=300"], {}, "2 to 256"),
        (["--shards=many"], {}, "2 to 256"),
        (["--shards=64", "--on-missing=take"], {}, "exclude each other"),
        (["--shards=64", "--lease=" + "x" * 64], {}, "63 characters"),
        (["--shards=64", "--identity=GM_0"], {}, "the name of a Lease"),
        (["--shards=64"], {"POD_UID": "gm-0"}, "metadata.uid"),
    ],
)
def test_shards_that_cannot_be_are_refused_before_anything_is_owned(
    flags: list[str], environ: dict[str, str], told: str
) -> None:
    with pytest.raises(BadInput, match=told):
        loaded(*flags, environ=environ)
