"""What the command line, its env twins and contrib's flags say, and what is refused how."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from elector_sidecar.config.config import Address, BadInput, Config, load

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


# ── what has no meaning ──


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


# ── a program behind `--` ──


def test_a_program_has_its_own_arguments() -> None:
    config = loaded("--restart", "--", "sh", "-c", "exit 1", "--server", "y")
    assert config.program == ("sh", "-c", "exit 1", "--server", "y")
    assert (config.lease, config.restart, str(config.listen)) == ("x", True, "127.0.0.1:0")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--"], "name the program to run"),
        (["--", "no-such-program"], "'no-such-program' is no program that can be run"),
        (["--restart"], "--restart true needs a program"),
        (["--stop-before=3s"], "--stop-before 3s needs a program"),
        (["--drain-timeout=3s"], "--drain-timeout 3s needs --drain-url"),
        (["--stop-before=0s", "--", "sh"], "not between 0s and 9s"),
        (["--stop-before=10s", "--", "sh"], "not between 0s and 9s"),
        (["--shards=4", "--", "sh"], "--shards 4: the program behind"),
        (["--drain-url=http://127.0.0.1:1/", "--", "sh"], "--drain-url http://127.0.0.1:1/: the"),
        (["--health-url=http://127.0.0.1:1/", "--", "sh"], "--health-url http://127.0.0.1:1/: the"),
        (["--release-on-term", "--", "sh"], "--release-on-term true: the program behind"),
    ],
)
def test_what_says_nothing_of_a_program_or_without_one_is_refused(
    arguments: list[str], told: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(told)):
        loaded(*arguments)


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
        (["--shards=64", "--priority=1"], {}, "--priority 1 and --shards exclude each other"),
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


def test_a_priority_is_a_whole_number_with_its_time_to_settle() -> None:
    config = loaded("--priority=7", "--priority-settle=5s")
    assert (config.priority, config.priority_settle) == (7, 5.0)
    assert loaded().priority == 0
    assert loaded(environ={"ELECTOR_PRIORITY": "9"}).priority == 9


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--priority=-1"], "not a whole number"),
        (["--priority=high"], "not a whole number"),
        (["--priority=1000001"], "is over 1000000"),
        (["--priority-settle=5s"], "--priority"),
    ],
)
def test_what_is_no_priority_is_refused(flags: list[str], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        loaded(*flags)
