"""A router between two networks of containers, on which packets can be made to vanish.

Nobody is told that they vanish: no interface goes, no connection is reset, as where a line in the
field is dead. Whoever is to use the router is told so with `lead`, again when its own interface was
gone meanwhile.
"""

from pathlib import Path
from typing import Any

from tools.harness.containers.engine.lab import DockerLab
from tools.harness.containers.networks.network import Network

_PROGRAM = Path(__file__).with_name("iproute.py").read_text(encoding="utf-8")
# Routes and rules are for who may administer a network, its own or another's.
_RIGHTS: dict[str, Any] = {"user": "0:0", "cap_add": ["NET_ADMIN"]}


class Router:
    """Of the Docker lab, which removes it."""

    def __init__(self, docker_lab: DockerLab, one: Network, other: Network) -> None:
        self._lab = docker_lab
        self._ways = {
            one.name: (_subnet(docker_lab, other), one.new_address()),
            other.name: (_subnet(docker_lab, one), other.new_address()),
        }
        (_, address), (_, other_address) = self._ways.values()
        self._container = docker_lab.start(
            docker_lab.base,
            ["python3", "-c", "import signal; signal.pause()"],
            sysctls={"net.ipv4.ip_forward": "1"},
            **_RIGHTS,
            **one.settings(docker_lab, address),
        )
        other.plug(self._container, other_address)

    def address_in(self, network: Network) -> str:
        """Its own there."""
        return self._ways[network.name][1]

    def lead(self, container_id: str, *, of: Network) -> None:
        """Tells who stands in one of the networks, as that container does, the way to the other."""
        subnet, gateway = self._ways[of.name]
        administer(self._lab, container_id, "route", subnet, gateway)

    def drop(self, address: str) -> None:
        """What goes from there or to there vanishes from now on."""
        self._do("drop", address)

    def let_pass(self, address: str) -> None:
        self._do("pass", address)

    def _do(self, word: str, address: str) -> None:
        code, output = self._container.exec_run(["python3", "-c", _PROGRAM, word, address])
        assert code == 0, output


def administer(docker_lab: DockerLab, container_id: str, *words: str) -> None:
    """Sets something in that container's network, as iproute.py has it."""
    docker_lab.client.containers.run(
        docker_lab.base,
        ["python3", "-c", _PROGRAM, *words],
        network_mode=f"container:{container_id}",
        labels=docker_lab.network_labels(),
        cap_drop=["ALL"],
        read_only=True,
        remove=True,
        **_RIGHTS,
    )


def owner(docker_lab: DockerLab, network: Network, address: str) -> str:
    """The id of the container that has the address there."""
    found = docker_lab.client.networks.get(network.name).attrs["Containers"]
    (it,) = [key for key in found if found[key]["IPv4Address"].partition("/")[0] == address]
    return str(it)


def _subnet(docker_lab: DockerLab, network: Network) -> str:
    attributes = docker_lab.client.networks.get(network.name).attrs
    return str(attributes["IPAM"]["Config"][0]["Subnet"])
