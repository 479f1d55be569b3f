"""Ends the reserved addresses of pods that are gone, as the relay knows them.

Guarantee: no pod's address is given away while it is not known that the pod is gone: what the relay
tells while the cloud is out of reach (an answer with an Age), or does not tell, ends nothing.
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.cli.proxies import NO_PROXIES, ProxyVariables
from edge_sidecars.runtime.cli.values import BadInput
from relay_node.identity import context_of, identity_of
from relay_node.installer.cni import BINARY
from relay_node.kubelet_api import PODS, TIMEOUT, KubeletApi, node_of

# Of a static pod's mirror: what kubelet, and so the runtime, calls the pod itself.
STATIC_UID: Final = "kubernetes.io/config.hash"


def collect(
    kubeconfig: Path,
    *,
    state_dir: Path,
    max_age: str = "0s",
    binary: Path = BINARY,
    proxies: ProxyVariables = NO_PROXIES,
) -> None:
    """Raises `BadInput`."""
    node = node_of(identity_of(context_of(kubeconfig), kubeconfig).user)
    api = KubeletApi(kubeconfig, command="ipam-gc", proxies=proxies)
    uids = asyncio.run(_present(api, node))
    command = [str(binary), "gc", f"--state-dir={state_dir}", f"--max-age={max_age}"]
    command += [] if uids is None else ["--present=-"]
    try:
        done = subprocess.run(
            command,
            input="\n".join(uids or ()),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(f"{binary}: {error}; `relay-sidecar node install` puts it there") from error
    print(done.stdout, end="")
    if uids is None:
        print("the cloud is out of reach: nothing is known of deleted pods")
    if done.returncode:
        raise BadInput(" ".join(done.stderr.split()))


async def _present(api: KubeletApi, node: str) -> list[str] | None:
    """The uids of all pods of a node; None where they are not known now.

    By version 0: kubelet watches the same pods, so the relay knows them without asking upstream.
    """
    try:
        async with api:
            found = await api.ask("GET", f"{PODS}{node}&resourceVersion=0")
    except Unreachable:
        return None
    if not (found.is_success and found.is_live):
        return None
    metadata = [pod["metadata"] for pod in msgspec.json.decode(found.body)["items"]]
    static = [it.get("annotations", {}).get(STATIC_UID) for it in metadata]
    return [it["uid"] for it in metadata] + [uid for uid in static if uid]
