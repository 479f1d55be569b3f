"""What the member is told, and what is refused how."""

from collections.abc import Mapping

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from pool_sidecar.config.member_config import MemberConfig, load

NODE = {"NODE_NAME": "n1", "HOST_IP": "10.0.0.1"}


def loaded(*flags: str, environ: Mapping[str, str] | None = None) -> MemberConfig:
    return load(flags, NODE | dict(environ or {}))


def test_name_and_address_are_the_pods_own_unless_said_otherwise() -> None:
    it = loaded()
    assert (it.node, it.lan_addresses) == ("n1", ("10.0.0.1",))
    it = loaded("--node=n2", "--lan-address=10.0.0.2", "--lan-address=fd00::2")
    assert (it.node, it.lan_addresses) == ("n2", ("10.0.0.2", "fd00::2"))
    assert it.token_path == it.data_dir / "token"


def test_in_a_pod_the_api_server_has_the_name_that_pods_call_it_by() -> None:
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert loaded(environ=pod).in_cluster == (("10.96.0.1", "443"),)
    assert loaded().in_cluster == ()


def test_a_twin_says_the_same_as_its_flag() -> None:
    assert loaded(environ={"POOL_LEND": "false"}).lend is False
    assert loaded("--lend=true", environ={"POOL_LEND": "false"}).lend is True
    assert loaded("--lend-rate=8Ki").limits.rate == 8192


@pytest.mark.parametrize("missing", ["NODE_NAME", "HOST_IP"])
def test_without_a_name_or_an_address_the_remedy_is_named(missing: str) -> None:
    with pytest.raises(BadInput, match=missing):
        load([], {name: value for name, value in NODE.items() if name != missing})
