"""The pod as its environment and its service account describe it."""

from collections.abc import Mapping
from pathlib import Path

from edge_sidecars.runtime.values import BadInput

# Where kubelet projects the pod's token, CA and namespace.
SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount"


def api_server(environ: Mapping[str, str], *, remedy: str) -> str:
    """The URL of the pod's API server. Raises `BadInput` outside of a pod, which ends in
    `remedy`."""
    host = environ.get("KUBERNETES_SERVICE_HOST")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise BadInput(
            f"no API server: KUBERNETES_SERVICE_HOST is not set, so this is no pod; {remedy}"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def pod_namespace(
    environ: Mapping[str, str], service_account_dir: Path, *, remedy: str = "set POD_NAMESPACE"
) -> str:
    """The namespace of this pod; "" outside of a pod. Raises `BadInput`, which ends in `remedy`."""
    namespace = environ.get("POD_NAMESPACE")
    if namespace:
        return namespace
    file = service_account_dir / "namespace"
    try:
        return file.read_text().strip() if file.is_file() else ""
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: {error}; {remedy}") from error
