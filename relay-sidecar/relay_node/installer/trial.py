"""Whether a relay that was just started serves what kubelet asks of it: readiness, the own Node,
the own pods. Asked as kubelet does, with its certificate, at the relay's own address.
"""

import asyncio
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.cli.proxies import NO_PROXIES
from edge_sidecars.runtime.cli.values import Address, BadInput
from relay_node.installer.systemd import units
from relay_node.installer.systemd.services import InstallationFailed, Services
from relay_node.kubelet_api import PODS, KubeletApi

POLL_INTERVAL: Final = 0.3
# Of starts that failed; systemd starts it anew each second.
MAX_RESTARTS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Trial:
    """`kubeconfig`: kubelet's by way of the relay; it need not be where kubelet has it.
    `patience`: seconds until the relay has to serve."""

    kubeconfig: Path
    node: str
    status_listen: Address
    services: Services
    patience: float

    def run(self) -> None:
        """Returns once the relay serves. Raises `InstallationFailed`, with its last log line."""
        started, deadline = time.time(), time.monotonic() + self.patience
        while lack := self._lack():
            if self._has_failed() or time.monotonic() >= deadline:
                said = self.services.last_line(units.RELAY, since=started)
                raise InstallationFailed(
                    f"the relay does not serve: {lack}; its log: {said or 'empty'}"
                )
            time.sleep(POLL_INTERVAL)

    def _has_failed(self) -> bool:
        found = self.services.show(units.RELAY, "ActiveState", "NRestarts")
        restarts = found.get("NRestarts", "0")
        is_tired = restarts.isdecimal() and int(restarts) >= MAX_RESTARTS
        return found.get("ActiveState") == "failed" or is_tired

    def _lack(self) -> str:
        return self._not_ready() or asyncio.run(self._not_served())

    def _not_ready(self) -> str:
        """ "" where /readyz is 200."""
        at = self.status_listen.dialled
        connection = HTTPConnection(at.host, at.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            with connection.getresponse() as answer:
                why = answer.read(1000).decode(errors="replace")
                return "" if answer.status == HTTPStatus.OK else f"/readyz: {' '.join(why.split())}"
        except (OSError, HTTPException) as error:
            return f"/readyz at {at}: {' '.join(str(error).split())}"
        finally:
            connection.close()

    async def _not_served(self) -> str:
        """ "" where kubelet's own reads are answered."""
        own_node = f"/api/v1/nodes/{self.node}"
        own_pods = f"{PODS}{self.node}&resourceVersion=0"
        try:
            api = KubeletApi(self.kubeconfig, command="install", proxies=NO_PROXIES)
            async with api:
                for target in (own_node, own_pods):
                    found = await api.ask("GET", target)
                    if not found.is_success:
                        why = " ".join(found.body[:300].decode(errors="replace").split())
                        return f"GET {target}: {found.status} {why}"
        except (Unreachable, BadInput) as error:
            return str(error)
        return ""
