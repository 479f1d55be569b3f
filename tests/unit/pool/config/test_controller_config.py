"""The flags of `pool-sidecar controller`: defaults, twins, and one line for bad input."""

from fractions import Fraction

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from pool_sidecar.config.controller_config import ControllerConfig, load
from pool_sidecar.core.controller.node_state import DEFAULT_POOL_LABEL
from pool_sidecar.core.controller.taints import MaxDead

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def _load(*flags: str, **environ: str) -> ControllerConfig:
    return load(flags, POD | environ)


def test_defaults_are_those_of_the_contract() -> None:
    config = _load()
    assert config.pool_label == DEFAULT_POOL_LABEL
    assert config.max_dead == MaxDead(Fraction(1, 3))
    assert config.taint_cut
    assert config.server == "https://10.96.0.1:443"


def test_flags_win_over_their_twins() -> None:
    config = _load("--max-dead=1/2", POOL_CONTROLLER_MAX_DEAD="4", POOL_CONTROLLER_TAINT_CUT="off")
    assert config.max_dead == MaxDead(Fraction(1, 2))
    assert not config.taint_cut
    assert _load(POOL_CONTROLLER_MAX_DEAD="4").max_dead == MaxDead(None, 4)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--max-dead=0", "write 1 or more"),
        ("--max-dead=3/2", "no share"),
        ("--max-dead=0/3", "no share"),
        ("--max-dead=1/0", "no share"),
        ("--max-dead=third", "not a whole number"),
        ("--pool-label=", "is empty: name a value, or drop the flag"),
        ("--pool-label=a b", "no key of a label"),
        ("--pool-label=a/b/c", "no key of a label"),
        ("--pool-label=example.com/", "no key of a label"),
        ("--taint-cut=maybe", "write true or false"),
        ("--elector=https://127.0.0.1:4040", "over http"),
        ("--request-timeout=1ms", "too short"),
        ("--listen=unix:/run/x", "host:port"),
        ("--max-deaf=1", "did you mean --max-dead"),
    ],
)
def test_bad_input_is_one_line_that_names_the_value_and_the_remedy(flag: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as raised:
        _load(flag)
    assert "\n" not in str(raised.value)


def test_outside_of_a_pod_it_asks_for_an_api_server() -> None:
    with pytest.raises(BadInput, match="name a --kubeconfig or a --server"):
        load((), {})
