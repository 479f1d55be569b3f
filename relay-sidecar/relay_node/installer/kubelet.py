"""How kubelet reaches the API server, and the same by way of the relay."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from edge_sidecars.kubeapi.kubeconfig_file import context_of_texts, mapping
from edge_sidecars.runtime.cli.proxies import HttpProxy
from edge_sidecars.runtime.cli.values import Address, BadInput, describe_failure
from relay_node.identity import content_of

_ROTATE = "let kubelet renew its certificate in a file (rotateCertificates: true)"


@dataclass(frozen=True)
class KubeletUpstream:
    """The API server and the node's identity there; `authorities` is PEM. `tls_server_name`: which
    its certificate has, None for the server's own; `proxy`: the URL of the one that the kubeconfig
    names, with user and password, "" where it names none."""

    server: str
    authorities: bytes
    certificate: Path
    key: Path
    tls_server_name: str | None = None
    proxy: str = ""


def read_upstream(
    content: bytes, *, kubeconfig: Path, place: Path, listen: Address
) -> KubeletUpstream:
    """`content`: of kubelet's `kubeconfig`, which is or was at `place`, below the root. Raises
    `BadInput` naming the file and the remedy."""
    try:
        found = context_of_texts({place: content.decode()}, None)
        authorities = None if found.authorities is None else content_of(found.authorities)
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
    if authorities is None or not found.server.startswith("https:"):
        raise BadInput(f"{named}: no https server with a certificate-authority")
    if found.pair is None or any(source.path is None for source in found.pair):
        raise BadInput(f"{named} names no file with a client certificate: {_ROTATE}")
    certificate, key = (
        _moved(source.path, place.parent, kubeconfig.parent)
        for source in found.pair
        if source.path is not None
    )
    proxy = "" if found.proxy is None else _proxy_url(found.proxy)
    return KubeletUpstream(
        found.server, authorities, certificate, key, found.tls_server_name, proxy
    )


def _proxy_url(proxy: HttpProxy) -> str:
    if not proxy.authorization:
        return proxy.url
    pair = base64.b64decode(proxy.authorization.removeprefix("Basic ")).decode()
    user, _, password = pair.partition(":")
    parts = urlsplit(proxy.url)
    return f"{parts.scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"


def _moved(path: Path, folder: Path, to: Path) -> Path:
    """Of a relative path: as on the node, without the root."""
    return to / path.relative_to(folder) if path.is_relative_to(folder) else path


def leads_to(server: str, listen: Address) -> bool:
    parts = urlsplit(server)
    host = parts.hostname or ""
    is_same = host == listen.host or (listen.is_loopback and Address(host, 0).is_loopback)
    return is_same and parts.port == listen.port


def by_way_of_relay(kubeconfig: bytes, *, listen: Address, authority: Path) -> bytes:
    """Of kubelet: the same user, another server. JSON, which is YAML. Raises `BadInput`."""
    content = _parsed(kubeconfig)
    for entry in content["clusters"]:
        entry["cluster"] = {"server": f"https://{listen}", "certificate-authority": str(authority)}
    return _text(content)


def absolute(kubeconfig: bytes, *, folder: Path) -> bytes:
    """The same, to lie in another folder than `folder`, from where its relative paths count."""
    content = _parsed(kubeconfig)
    for entry in content["users"]:
        for name in ("client-certificate", "client-key"):
            if isinstance(entry.get("user"), dict) and entry["user"].get(name):
                entry["user"][name] = str(folder / entry["user"][name])
    return _text(content)


def past_relay(kubeconfig: bytes, authorities: bytes) -> bytes:
    """As the kubeconfig was, with the API server's CA in it: for what has to speak to the API
    server itself, such as the member of a pool. To lie beside kubelet's, whose relative paths it
    has. JSON, which is YAML. Raises `BadInput`."""
    content = _parsed(kubeconfig)
    for entry in content["clusters"]:
        cluster = entry["cluster"] = entry.get("cluster") or {}
        cluster.pop("certificate-authority", None)
        encoded = base64.b64encode(authorities).decode()
        cluster["certificate-authority-data"] = encoded
    return _text(content)


def _parsed(kubeconfig: bytes) -> dict[str, Any]:
    """Of one that `read_upstream` took."""
    return dict(mapping(kubeconfig.decode(), Path()))


def _text(content: dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, indent=2).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"kubelet's kubeconfig holds what only YAML can say ({error}): write it as JSON can"
        ) from error


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
