"""The command line, Sedna's variables, and what they mean together."""

from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from lc.config.config import Config, load

GM = {"GM_ADDRESS": "gm.sedna:9000", "NODENAME": "edge-a"}


def config(*flags: str, **environ: str) -> Config:
    return load(flags, {**GM, **environ}, hostname="host-1")


def test_sednas_variables_are_enough() -> None:
    it = config(ROOTFS_MOUNT_DIR="/host", BIND_PORT="9200")
    assert not it.is_relay
    assert [str(each) for each in it.gm_addresses] == ["gm.sedna:9000"]
    assert (it.node, it.root, str(it.listen)) == ("edge-a", Path("/host"), "127.0.0.1:9200")
    assert it.data_dir == Path("/host/var/lib/sedna")


def test_the_root_is_sednas_where_nobody_names_it_and_none_where_it_is_empty() -> None:
    assert config().root == Path("/rootfs")
    assert config(ROOTFS_MOUNT_DIR="").root == Path("/")


def test_a_flag_wins_over_its_twin_and_that_over_sednas_variable() -> None:
    assert config(LC_NODE="edge-b").node == "edge-b"
    assert config("--node", "edge-c", LC_NODE="edge-b").node == "edge-c"


def test_the_node_is_the_hosts_name_where_nobody_names_it() -> None:
    assert load([], {"GM_ADDRESS": "a:1"}, hostname="host-1").node == "host-1"
    named = {"GM_ADDRESS": "a:1", "HOSTNAME": "host-2"}
    assert load([], named, hostname="host-1").node == "host-2"


def test_several_gms_may_be_named() -> None:
    it = config("--gm-address", "a:9000, b:9001")
    assert [str(each) for each in it.gm_addresses] == ["a:9000", "b:9001"]


def test_mode_relay_takes_no_notice_of_sednas_gm() -> None:
    it = config("--mode", "relay")
    assert it.is_relay
    assert it.gm_addresses == ()
    assert it.api == "http://127.0.0.1:10550"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--mode", "both"], "choose one of stream, relay"),
        (["--mode", "relay", "--gm-address", "a:1"], "with --mode relay LC never dials GM"),
        (["--namespace", "shop"], "needs --mode relay"),
        (["--mode", "relay", "--namespace", "Shop!"], "is not a namespace"),
        (["--node", "Edge A"], "is not a node's name"),
        (["--gm-address", "gm"], "is not host:port"),
        (["--gm-address", "unix:/gm"], "name a host and a port"),
        (["--tls-cert", "c"], "need each other"),
        (["--tls-cert", "c", "--tls-key", "k"], "needs --server-ca"),
        (["--gm-token-file", "t"], "needs --server-ca"),
        (["--bind-port", "0"], "is not a port"),
        (["--bind-port", "70000"], "is not a port"),
        (["--dataset-interval", "100ms"], "must be at least 1s"),
        (["--redial-cap", "1ms"], "must be at least 0.2s"),
        (["--node-listen", "10.0.0.1:9100"], "name a --token-file"),
        (["--token-file", "t"], "is for --node-listen"),
        (["--node-listen", "unix:/s", "--token-file", "t"], "name an address"),
        (["--dataset-intervall", "1s"], "did you mean --dataset-interval?"),
    ],
)
def test_bad_input_names_the_value_and_the_remedy(flags: list[str], told: str) -> None:
    with pytest.raises(BadInput) as caught:
        config(*flags)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_gm_the_stream_is_refused() -> None:
    with pytest.raises(BadInput, match="--gm-address is missing"):
        load([], {}, hostname="host-1")
