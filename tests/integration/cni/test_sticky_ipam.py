"""sticky-ipam against the real host-local, over CNI's own protocol."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tools.harness.nodes.cni import host_local, sticky_ipam

NETWORK = "pods"


class Node:
    """One node's network: what a container runtime does with the plugin. `pod`s are uids,
    `sandbox`es are container ids."""

    def __init__(self, folder: Path, *, subnets: Sequence[str] = ("10.9.0.0/24",)) -> None:
        self.state = folder / "state"
        self.data = folder / "networks"
        self.subnets = subnets
        self.path = str(host_local().parent)
        self.program = sticky_ipam()

    def config(self, **more: Any) -> dict[str, Any]:
        return {
            "cniVersion": "1.1.0",
            "name": NETWORK,
            "type": "bridge",
            "ipam": {
                "type": "sticky-ipam",
                "ranges": [[{"subnet": subnet}] for subnet in self.subnets],
                "dataDir": str(self.data),
                "sticky": {"stateDir": str(self.state)},
            },
            **more,
        }

    def environment(self, command: str, sandbox: str, arguments: str) -> dict[str, str]:
        return {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": sandbox,
            "CNI_NETNS": "/run/netns/none",
            "CNI_IFNAME": "eth0",
            "CNI_ARGS": arguments,
            "CNI_PATH": self.path,
        }

    def run(
        self,
        command: str,
        pod: str = "",
        sandbox: str = "",
        *,
        name: str = "web-0",
        arguments: str | None = None,
        config: dict[str, Any] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        if arguments is None:
            arguments = _arguments(pod, name)
        return subprocess.run(
            [self.program],
            input=json.dumps(config or self.config()),
            env=self.environment(command, sandbox, arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

    def add(self, pod: str, sandbox: str, **more: Any) -> list[str]:
        done = self.run("ADD", pod, sandbox, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return [each["address"].split("/")[0] for each in json.loads(done.stdout)["ips"]]

    def refused(self, command: str, *given: str, **more: Any) -> str:
        done = self.run(command, *given, **more)
        assert done.returncode != 0, done.stdout
        return str(json.loads(done.stdout)["msg"])

    def delete(self, pod: str, sandbox: str, **more: Any) -> None:
        done = self.run("DEL", pod, sandbox, **more)
        assert done.returncode == 0, done.stdout + done.stderr

    def tool(self, *arguments: str, given: str = "", check: bool = True) -> str:
        done = subprocess.run(
            [
                *(sticky_ipam(), arguments[0], "--state-dir", self.state),
                *("--cni-path", self.path, *arguments[1:]),
            ],
            input=given,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
        assert (done.returncode == 0) is check, done.stdout + done.stderr
        return done.stdout if check else done.stderr

    def reservations(self) -> dict[str, dict[str, Any]]:
        return {each["key"]: each for each in json.loads(self.tool("list"))}

    def held(self) -> set[str]:
        """What host-local counts as used."""
        files = (self.data / NETWORK).iterdir() if (self.data / NETWORK).exists() else ()
        return {each.name for each in files if each.name[0].isdigit() or ":" in each.name}


def _arguments(pod: str, name: str = "web-0") -> str:
    uid = f";K8S_POD_UID={pod}" if pod else ""
    return f"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name}{uid}"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_pod_has_its_addresses_again_after_a_reboot(tmp_path: Path) -> None:
    node = Node(tmp_path, subnets=("10.9.0.0/24", "fd00:9::/64"))
    before = {pod: node.add(pod, f"{pod}-before") for pod in ("a", "b", "c")}
    assert all(len(each) == 2 for each in before.values())
    # Nobody deletes the sandboxes of a node that lost its power; the order is another one.
    after = {pod: node.add(pod, f"{pod}-after") for pod in ("c", "a", "b")}
    assert after == before
    assert node.held() == {address for each in before.values() for address in each}


def test_a_deleted_sandbox_frees_no_address_for_others(tmp_path: Path) -> None:
    node = Node(tmp_path, subnets=("10.9.0.0/29",))  # six addresses, one is the gateway
    [address] = node.add("a", "a-1")
    node.delete("a", "a-1")
    others = [node.add(f"pod-{n}", f"s-{n}")[0] for n in range(4)]
    assert address not in others
    message = node.refused("ADD", "one-more", "s-9")
    assert "no IP addresses available" in message
    assert "1 of them are reserved" in message
    assert "relay-sidecar node ipam-gc" in message
    assert node.add("a", "a-2") == [address]


def test_a_late_deletion_of_the_sandbox_before_frees_nothing(node: Node) -> None:
    [address] = node.add("a", "a-1")
    assert node.add("a", "a-2") == [address]
    node.delete("a", "a-1")
    node.delete("a", "a-1")
    assert node.reservations()["a"]["attached"] is True
    assert node.held() == {address}


def test_a_deletion_without_the_pods_name_is_known_by_its_sandbox(node: Node) -> None:
    [address] = node.add("a", "a-1")
    node.delete("", "a-1", arguments="")
    assert node.reservations()["a"]["attached"] is False
    assert node.held() == {address}


def test_another_pod_of_the_same_name_gets_another_address(node: Node) -> None:
    [first] = node.add("uid-1", "s-1", name="db-0")
    node.delete("uid-1", "s-1", name="db-0")
    assert node.add("uid-2", "s-2", name="db-0") != [first]


def test_a_runtime_that_tells_no_uid_is_served_by_name(node: Node) -> None:
    [first] = node.add("", "s-1", name="db-0")
    node.delete("", "s-1", name="db-0")
    assert node.add("", "s-2", name="db-0") == [first]
    assert set(node.reservations()) == {"default_db-0"}


def test_what_is_no_pod_is_passed_on(node: Node) -> None:
    [address] = node.add("", "s-1", arguments="")
    assert node.reservations() == {}
    node.delete("", "s-1", arguments="")
    assert node.held() == set()
    assert address


def test_addresses_that_the_delegate_forgot_are_held_again_before_others_are_given(
    node: Node,
) -> None:
    taken = {node.add(pod, f"{pod}-1")[0] for pod in ("a", "b", "c")}
    shutil.rmtree(node.data)
    assert node.add("new", "new-1")[0] not in taken
    assert taken <= node.held()
    assert {node.add(pod, f"{pod}-2")[0] for pod in ("a", "b", "c")} == taken


@pytest.mark.parametrize("lost", [0, 1])
def test_one_of_two_addresses_that_the_delegate_forgot_is_held_again(
    tmp_path: Path, lost: int
) -> None:
    node = Node(tmp_path, subnets=("10.9.0.0/30", "fd00:9::/126"))  # for one pod each
    addresses = node.add("a", "a-1")
    (node.data / NETWORK / addresses[lost]).unlink()
    node.refused("ADD", "b", "b-1")
    assert set(addresses) <= node.held()
    assert node.add("a", "a-2") == addresses


def test_a_file_that_a_power_cut_left_empty_blocks_no_address(node: Node) -> None:
    [address] = node.add("a", "a-1")
    (node.data / NETWORK / address).write_bytes(b"")
    assert node.add("a", "a-2") == [address]
    (node.data / NETWORK / address).write_bytes(b"")
    assert node.add("b", "b-1") != [address]
    assert (node.data / NETWORK / address).read_text().startswith("a-2")


def test_a_damaged_reservation_is_set_aside_and_said(node: Node) -> None:
    node.add("a", "a-1")
    [file] = (node.state / NETWORK).glob("a@*.json")
    file.write_text('{"addresses": [')
    done = node.run("ADD", "b", "b-1")
    assert done.returncode == 0
    assert f"{file} is damaged" in done.stderr
    assert file.with_name(file.name + ".damaged").exists()


def test_an_address_that_somebody_else_holds_is_named_with_its_holder(node: Node) -> None:
    [address] = node.add("a", "a-1")
    (node.data / NETWORK / address).write_text("stranger\r\neth0")
    message = node.refused("ADD", "a", "a-2")
    assert f"{address} is reserved for this pod and held by sandbox stranger" in message
    assert "sticky-ipam release a" in message


def test_a_pod_gets_a_new_address_where_its_subnet_is_gone(node: Node) -> None:
    node.add("a", "a-1")
    node.subnets = ("10.10.0.0/24",)
    done = node.run("ADD", "a", "a-2")
    assert done.returncode == 0
    assert "in no subnet of network pods any more" in done.stderr
    assert json.loads(done.stdout)["ips"][0]["address"].startswith("10.10.0.")
    assert node.reservations()["a"]["addresses"][0].startswith("10.10.0.")


def test_an_address_that_the_caller_names_wins(node: Node) -> None:
    node.add("a", "a-1")
    wanted = node.config(args={"cni": {"ips": ["10.9.0.77"]}})
    assert node.add("a", "a-2", config=wanted) == ["10.9.0.77"]
    assert node.add("a", "a-3") == ["10.9.0.77"]


def test_sandboxes_that_begin_at_the_same_time_share_no_address(node: Node) -> None:
    pods = [f"pod-{n}" for n in range(12)]
    with ThreadPoolExecutor(max_workers=6) as pool:
        first = list(pool.map(lambda pod: node.add(pod, f"{pod}-1"), pods))
        again = list(pool.map(lambda pod: node.add(pod, f"{pod}-2"), reversed(pods)))
    assert len({address for [address] in first}) == len(pods)
    assert again[::-1] == first


def test_a_plugin_that_is_killed_anywhere_gives_no_address_twice(node: Node) -> None:
    """What a pod was told it has, it has again; nobody else ever has it."""
    told: dict[str, list[str]] = {}
    for n in range(30):
        pod = f"pod-{n % 5}"
        process = subprocess.Popen(
            [sticky_ipam()],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=node.environment("ADD", f"s-{n}", _arguments(pod)),
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps(node.config()).encode())
        process.stdin.close()
        time.sleep(n * 0.001)
        process.kill()
        process.wait()
        addresses = node.add(pod, f"t-{n}")
        assert told.setdefault(pod, addresses) == addresses
    assert len({address for [address] in told.values()}) == 5


# ── what ends a reservation ──


def test_gc_ends_the_reservation_of_a_pod_that_is_absent_for_the_grace(node: Node) -> None:
    [gone], [kept] = node.add("gone", "s-1"), node.add("kept", "s-2")
    node.delete("gone", "s-1")
    node.delete("kept", "s-2")
    arguments = ("gc", "--present", "-", "--grace", "100ms")
    assert node.tool(*arguments, given="kept\n") == ""
    time.sleep(0.2)
    assert f"pods gone: [{gone}] are free" in node.tool(*arguments, given="kept\n")
    assert set(node.reservations()) == {"kept"}
    assert node.held() == {kept}


def test_gc_begins_anew_when_a_pod_is_seen_again(node: Node) -> None:
    node.add("a", "s-1")
    node.delete("a", "s-1")
    arguments = ("gc", "--present", "-", "--grace", "100ms")
    node.tool(*arguments)
    node.tool(*arguments, given="a")
    time.sleep(0.2)
    assert node.tool(*arguments) == ""
    assert node.reservations()["a"]["absent"] is True


def test_gc_without_a_list_of_pods_ends_nothing(node: Node) -> None:
    node.add("a", "s-1")
    node.delete("a", "s-1")
    for _ in range(3):
        assert node.tool("gc", "--grace", "0s") == ""
    assert set(node.reservations()) == {"a"}


def test_gc_ends_nothing_of_a_living_sandbox(node: Node) -> None:
    node.add("a", "s-1")
    assert node.tool("gc", "--present", "-", "--grace", "0s", "--max-age", "1ns") == ""
    assert set(node.reservations()) == {"a"}


def test_max_age_ends_what_has_had_no_sandbox_for_so_long(node: Node) -> None:
    node.add("a", "s-1")
    node.delete("a", "s-1")
    node.tool("gc", "--max-age", "100ms")
    time.sleep(0.2)
    assert "are free" in node.tool("gc", "--max-age", "100ms")
    assert node.reservations() == {}
    assert node.held() == set()


def test_the_time_of_another_boot_does_not_count(node: Node) -> None:
    node.add("a", "s-1")
    node.delete("a", "s-1")
    node.tool("gc", "--max-age", "1ms")
    last = node.state / ".last-gc.json"
    last.write_text(json.dumps({"boot": "another", "at": 0}))
    assert node.tool("gc", "--max-age", "1ms") == ""
    assert set(node.reservations()) == {"a"}


def test_release_ends_what_is_named_or_all_without_a_sandbox(node: Node) -> None:
    for pod in ("a", "b", "c"):
        node.add(pod, f"{pod}-1")
    node.delete("a", "a-1")
    node.delete("b", "b-1")
    node.tool("release", "a")
    assert set(node.reservations()) == {"b", "c"}
    node.tool("release", "--all")
    assert set(node.reservations()) == {"c"}
    assert len(node.held()) == 1
    assert "no reservation of a" in node.tool("release", "a", check=False)


def test_the_runtimes_gc_frees_interfaces_and_keeps_addresses(node: Node) -> None:
    [address] = node.add("a", "a-1")
    node.add("b", "b-1")
    valid = [{"containerID": "b-1", "ifname": "eth0"}]
    config = node.config(**{"cni.dev/valid-attachments": valid})
    assert node.run("GC", config=config, arguments="").returncode == 0
    attached = {key: each["attached"] for key, each in node.reservations().items()}
    assert attached == {"a": False, "b": True}
    assert node.add("a", "a-2") == [address]


# ── the other verbs, and what is refused ──


def test_check_and_status_are_answered(node: Node) -> None:
    node.add("a", "a-1")
    assert node.run("CHECK", "a", "a-1", config=_with_result(node)).returncode == 0
    assert "a-9" in node.refused("CHECK", "a", "a-9", config=_with_result(node))
    assert node.run("STATUS", arguments="").returncode == 0
    versions = json.loads(node.run("VERSION").stdout)
    assert "1.1.0" in versions["supportedVersions"]


def _with_result(node: Node) -> dict[str, Any]:
    return node.config(prevResult={"cniVersion": "1.1.0", "ips": []})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sticky": {"delegate": "nowhere"}}, "nowhere"),
        ({"sticky": {"stateDir": "relative"}}, 'stateDir "relative": name an absolute path'),
        ({"sticky": {"delegate": "sticky-ipam"}}, "name host-local"),
        ({"sticky": {"stateDir": "/dev/null/x"}}, "name a writable ipam.sticky.stateDir"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    node: Node, change: dict[str, Any], message: str
) -> None:
    config = node.config()
    config["ipam"] |= change
    assert message in node.refused("ADD", "a", "a-1", config=config)
    assert node.held() == set()


def test_a_uid_that_is_a_path_is_refused(node: Node) -> None:
    assert "is no uid" in node.refused("ADD", "../../etc/x", "a-1")


def test_where_the_reservation_cannot_be_kept_no_address_is_taken(node: Node) -> None:
    node.add("a", "a-1")
    # A folder where the file should be: written beside it, it cannot be renamed over it.
    (node.state / NETWORK / "b@eth0.json" / "x").mkdir(parents=True)
    message = node.refused("ADD", "b", "b-1")
    assert "b@eth0.json" in message
    assert len(node.held()) == 1


def test_a_tool_that_is_called_wrongly_says_how(node: Node) -> None:
    assert "is no command" in node.tool("what", check=False)
    assert "name keys of `sticky-ipam list`, or --all" in node.tool("release", check=False)


def test_without_a_relay_it_passes_all_on_and_frees_what_was_reserved(node: Node) -> None:
    """`node uninstall` leaves a marker beside the plugin, as long as sandboxes need it."""
    node.program = Path(shutil.copy(sticky_ipam(), node.data.parent / "sticky-ipam"))
    assert node.add("a", "a-sandbox")
    assert node.add("b", "b-sandbox")
    node.program.with_name("sticky-ipam.passthrough").touch()
    node.delete("a", "a-sandbox")
    assert node.reservations().keys() == {"b"}
    [address] = node.add("c", "c-sandbox")
    assert address in node.held()
    assert node.run("STATUS").returncode == 0
    node.delete("c", "c-sandbox")
    # The data directory may be deleted before the last sandbox ends.
    shutil.rmtree(node.state)
    node.delete("b", "b-sandbox")
    assert not node.held()
    assert not node.state.exists()
