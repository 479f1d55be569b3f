"""Ends the reserved addresses of pods that are gone, as the relay knows them.

Guarantee: nobody's address is given away while it is not known that the pod is gone: what the relay
tells while the cloud is out of reach (an answer with an Age), or does not tell, ends nothing.
"""

import asyncio
import subprocess
from pathlib import Path
from typing import Final

import msgspec

from edge_sidecars.kubeapi import Unreachable
from edge_sidecars.runtime.values import BadInput
from relay_sidecar.node.cni import BINARY
from relay_sidecar.node.kubelet_api import PODS, TIMEOUT, KubeletApi, NodeAnswer, node_of

# Of a static pod's mirror: what kubelet, and so the runtime, calls the pod itself.
STATIC_UID: Final = "kubernetes.io/config.hash"


def collect(
    kubeconfig: Path, *, state_dir: Path, max_age: str = "0s", binary: Path = BINARY
) -> None:
    """Raises `BadInput`."""
    uids = asyncio.run(_present(KubeletApi(kubeconfig, command="ipam-gc")))
    command = [str(binary), "gc", f"--state-dir={state_dir}", f"--max-age={max_age}"]
    command += [] if uids is None else ["--present=-"]
    try:
        done = subprocess.run(
            command, input="\n".join(uids or ()), capture_output=True, text=True, timeout=TIMEOUT
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInput(f"{binary}: {error}; `relay-sidecar node install` puts it there") from error
    print(done.stdout, end="")
    if uids is None:
        print("the cloud is out of reach: nothing is known of deleted pods")
    if done.returncode:
        raise BadInput(" ".join(done.stderr.split()))


async def _present(api: KubeletApi) -> list[str] | None:
    """The uids of all pods of this node; None where nobody knows them now."""
    try:
        async with api:
            review = _of_now(await api.who_am_i())
            return None if review is None else await _uids(api, _node_name(review))
    except Unreachable:
        return None


async def _uids(api: KubeletApi, node: str) -> list[str] | None:
    body = _of_now(await api.ask("GET", PODS + node))
    if body is None:
        return None
    metadata = [pod["metadata"] for pod in msgspec.json.decode(body)["items"]]
    static = [it.get("annotations", {}).get(STATIC_UID) for it in metadata]
    return [it["uid"] for it in metadata] + [uid for uid in static if uid]


def _node_name(review: bytes) -> str:
    """Of whom we are upstream."""
    return node_of(msgspec.json.decode(review)["status"]["userInfo"]["username"])


def _of_now(answer: NodeAnswer) -> bytes | None:
    """None where the answer is not the API server's of now."""
    return answer.body if answer.is_success and answer.is_live else None
