"""The command line of gm: defaults, twins, and one line for whatever is wrong."""

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from gm.config.config import Mode, load

TLS = ["--tls-cert", "c", "--tls-key", "k"]
REVIEWED = [*TLS, "--review-tokens", "true"]


def test_without_a_word_gm_stands_beside_its_sidecars_and_serves_lcs_while_it_leads() -> None:
    config = load([], {})
    assert config.mode is Mode.ACTIVE_STANDBY
    assert config.api == "http://127.0.0.1:10550"
    assert config.relay_status == "http://127.0.0.1:10551"
    assert config.elector == "http://127.0.0.1:4040"
    assert str(config.stream_listen) == ":9000"
    assert config.sedna_listen is None
    assert config.namespaces == ()
    assert config.refused_namespaces == {"kube-system"}


def test_namespaces_are_named_once_each_by_flags_or_with_spaces_between() -> None:
    environ = {"GM_NAMESPACE": "shop  lab"}
    assert load([], environ).namespaces == ("shop", "lab")
    flags = ["--namespace", "a", "--namespace", "b", "--namespace", "a"]
    assert load(flags, environ).namespaces == ("a", "b")
    allowed = ["--namespace", "kube-system", "--allow-kube-system", "true"]
    assert load(allowed, {}).refused_namespaces == frozenset()


def test_a_flag_wins_over_its_twin() -> None:
    environ = {"GM_MODE": "relay", "GM_CONCURRENCY": "3", "GM_PORT": "tcp://10.0.0.1:9000"}
    assert load([], environ).mode is Mode.RELAY
    assert load(["--concurrency", "5"], environ).concurrency == 5


def test_mode_relay_has_no_door_for_lcs() -> None:
    assert load(["--mode", "relay"], {}).stream_listen is None


def test_the_relay_need_not_be_asked_about_the_link() -> None:
    assert load(["--relay-status", "off"], {}).relay_status is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--mode", "active"], "active-standby, active-active, relay"),
        (["--mode", "relay", "--stream-listen", ":9000"], "drop one"),
        (["--mode", "relay", "--sedna-listen", ":9002"], "drop one"),
        (["--mode", "relay", "--review-tokens", "true"], "drop one"),
        (["--namespace", "Shop"], "'Shop'"),
        (["--namespace", "shop", "--namespace", "kube-system"], "--allow-kube-system"),
        (["--namespace", "shop", "--allow-kube-system", "true"], "drop one"),
        (["--api", "https://127.0.0.1:10550"], "over http"),
        (["--elector", "127.0.0.1:4040"], "is not a URL"),
        (["--tls-cert", "c"], "--tls-key"),
        (["--tls-key", "k"], "--tls-cert"),
        (["--client-ca", "ca"], "--tls-cert"),
        (["--review-tokens", "true"], "in the clear"),
        ([*TLS, "--review-tokens", "true"], "like sedna:lc"),
        (["--lc-service-account", "sedna:lc"], "--review-tokens"),
        ([*REVIEWED, "--lc-service-account", "lc"], "NAMESPACE:NAME"),
        ([*REVIEWED, "--lc-service-account", "Sedna:lc"], "'Sedna:lc'"),
        ([*REVIEWED, "--lc-service-account", "sedna:lc:x"], "'sedna:lc:x'"),
        ([*REVIEWED, "--lc-service-account", "a:lc", "--trust-any-lc", "true"], "drop one"),
        ([*TLS, "--client-ca", "a", "--trust-any-lc", "true"], "--client-ca a"),
        (["--mode", "relay", "--trust-any-lc", "true"], "drop one"),
        (
            ["--review-tokens", "true", "--tls-cert", "c", "--tls-key", "k", "--client-ca", "a"],
            "drop one",
        ),
        (["--listen", "unix:/run/gm.sock"], "host:port"),
        (["--listen", "127.0.0.1:9000"], "choose another"),
        (["--sedna-listen", ":9000"], "choose another"),
        (["--concurrency", "0"], "between 1 and 256"),
        (["--request-timeout", "1ms"], "at least"),
        (["--conncurrency", "3"], "--concurrency"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(arguments: list[str], named: str) -> None:
    with pytest.raises(BadInput) as error:
        load(arguments, {})
    assert named in str(error.value)
    assert "\n" not in str(error.value)


def test_tokens_are_those_of_lc_in_the_namespace_of_gm_unless_another_account_is_named() -> None:
    assert load(REVIEWED, {"POD_NAMESPACE": "sedna"}).lc_service_account == "sedna:lc"
    named = [*REVIEWED, "--lc-service-account", "edge:sedna-lc"]
    assert load(named, {"POD_NAMESPACE": "sedna"}).lc_service_account == "edge:sedna-lc"
    assert load([], {"POD_NAMESPACE": "sedna"}).lc_service_account is None


def test_an_open_door_is_warned_about() -> None:
    assert any("any node" in text for text in load(["--trust-any-lc", "true"], {}).warnings)
    assert any("--client-ca" in text for text in load([], {}).warnings)
    proven = ["--tls-cert", "c", "--tls-key", "k", "--client-ca", "a"]
    assert load(proven, {}).warnings == ()
    assert any("--sedna-listen" in text for text in load(["--sedna-listen", ":9002"], {}).warnings)
