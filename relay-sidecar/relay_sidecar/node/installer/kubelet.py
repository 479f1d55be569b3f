"""How kubelet reaches the API server, and the same by way of the relay."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge_sidecars.kubeapi.kubeconfig_file import read_context
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure

_ROTATE = "let kubelet renew its certificate in a file (rotateCertificates: true)"


@dataclass(frozen=True)
class Upstream:
    """The API server and the node's identity there; `authorities` is PEM."""

    server: str
    authorities: bytes
    certificate: Path
    key: Path


def read_upstream(kubeconfig: Path, *, listen: Address, relative_to: Path) -> Upstream:
    """`relative_to`: where relative paths in it begin. Raises `BadInput` naming the file and the
    remedy."""
    try:
        found = read_context([kubeconfig], None)
        authorities = None if found.authorities is None else found.authorities.read()
    except (OSError, ValueError) as error:
        raise BadInput(
            f"--kubelet-kubeconfig {kubeconfig}: {describe_failure(error)}; name the file with "
            "which kubelet starts"
        ) from error
    named = f"--kubelet-kubeconfig {kubeconfig}"
    if leads_to(found.server, listen):
        raise BadInput(
            f"{named} leads to {found.server}, the relay itself: name one that leads to the API "
            "server"
        )
    if found.proxy is not None:
        raise BadInput(
            f"{named} has the proxy-url {found.proxy.url}, by which kubelet would look for the "
            "relay too: remove it there, and give the relay's unit HTTPS_PROXY by `systemctl edit`"
        )
    if authorities is None or not found.server.startswith("https:"):
        raise BadInput(f"{named}: no https server with a certificate-authority")
    if found.pair is None or any(source.path is None for source in found.pair):
        raise BadInput(f"{named} names no file with a client certificate: {_ROTATE}")
    certificate, key = (
        _moved(source.path, kubeconfig.parent, relative_to)
        for source in found.pair
        if source.path is not None
    )
    return Upstream(found.server, authorities, certificate, key)


def _moved(path: Path, folder: Path, to: Path) -> Path:
    """Of a relative path, which was read in a copy of the kubeconfig."""
    return to / path.relative_to(folder) if path.is_relative_to(folder) else path


def leads_to(server: str, listen: Address) -> bool:
    parts = urlsplit(server)
    host = parts.hostname or ""
    is_same = host == listen.host or (listen.is_loopback and Address(host, 0).is_loopback)
    return is_same and parts.port == listen.port


def by_way_of_relay(kubeconfig: bytes, *, listen: Address, authority: Path) -> bytes:
    """Of kubelet: the same user, another server. JSON, which is YAML."""
    from yaml import safe_load

    content: dict[str, Any] = safe_load(kubeconfig)
    for entry in content["clusters"]:
        entry["cluster"] = {"server": f"https://{listen}", "certificate-authority": str(authority)}
    return json.dumps(content, indent=2).encode() + b"\n"


def past_relay(kubeconfig: bytes, authorities: bytes) -> bytes:
    """As the kubeconfig was, with the API server's CA in it: for what has to speak to the API
    server itself, such as the member of a pool. To lie beside kubelet's, whose relative paths it
    has. JSON, which is YAML."""
    from yaml import safe_load

    content: dict[str, Any] = safe_load(kubeconfig)
    for entry in content["clusters"]:
        entry["cluster"].pop("certificate-authority", None)
        encoded = base64.b64encode(authorities).decode()
        entry["cluster"]["certificate-authority-data"] = encoded
    return json.dumps(content, indent=2).encode() + b"\n"


def of_pods(*, listen: Address, authority: Path, token: Path) -> bytes:
    """For what runs with the host's network and brings its own service account's token."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "relay",
                "cluster": {
                    "server": f"https://{listen}",
                    "certificate-authority": str(authority),
                },
            }
        ],
        "users": [{"name": "pod", "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": "relay", "context": {"cluster": "relay", "user": "pod"}}],
        "current-context": "relay",
    }
    return json.dumps(content, indent=2).encode() + b"\n"
