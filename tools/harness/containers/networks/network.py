"""A network of containers that can be pulled out of one and plugged in again.

Its addresses are of 198.18.0.0/15, which RFC 2544 keeps for tests: nothing real is reached by
mistake. Whoever is in two networks does not pass anything on from one to the other. A container
that is unplugged gets "network unreachable" at once; one that comes back has its address again.
"""

import ipaddress
from typing import Any

from docker.errors import APIError
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool

from tools.harness.containers.engine.lab import DockerLab

_POOL = ipaddress.IPv4Network("198.18.0.0/15")
# Below the engine's own, of which it takes the first that are free.
_SUBNETS = list(_POOL.subnets(new_prefix=24))[256:500]
# The engine's words for a subnet that is in use.
_TAKEN = "overlaps"


class Network:
    """Of the Docker lab, which removes it. `gateway`: the address of the engine's machine in it.

    `is_closed`: no way leads on from there. Else it leads to the engine's machine, and only the
    firewall there keeps somebody whom no other network is left from getting to one over it.
    """

    def __init__(self, docker_lab: DockerLab, name: str, *, is_closed: bool = False) -> None:
        labels = docker_lab.network_labels()
        for subnet in _SUBNETS:
            pool = IPAMPool(subnet=str(subnet))
            try:
                self._network = docker_lab.client.networks.create(
                    name,
                    ipam=IPAMConfig(pool_configs=[pool]),
                    labels=labels,
                    internal=is_closed,
                    # Nothing here has anything to ask of the world.
                    options={"com.docker.network.bridge.enable_ip_masquerade": "false"},
                )
            except APIError as error:
                if _TAKEN not in str(error):
                    raise
                continue
            hosts = subnet.hosts()
            self.gateway = str(next(hosts))
            self._hosts = hosts
            return
        raise RuntimeError(f"each subnet of {_POOL} is in use")

    @property
    def name(self) -> str:
        return str(self._network.name)

    def new_address(self) -> str:
        """One that nobody has."""
        return str(next(self._hosts))

    def settings(self, docker_lab: DockerLab, address: str) -> dict[str, Any]:
        """Of a container that starts in this network, at the address."""
        endpoint = docker_lab.client.api.create_endpoint_config(ipv4_address=address)
        return {"network": self.name, "networking_config": {self.name: endpoint}}

    def plug(self, container: Container, address: str) -> None:
        self._network.connect(container, ipv4_address=address)

    def unplug(self, container: Container) -> None:
        self._network.disconnect(container)
