"""A certificate for loopback with its key, which in-cluster clients of a pod trust and no one else.

Guarantees: it signs nothing but itself (CA:FALSE), and names loopback and the API server's names
only.
"""

from pathlib import Path

from edge_sidecars.runtime.certificates.self_signed import BEGIN_KEY, self_signed
from edge_sidecars.runtime.cli.values import BadInput
from relay_node import ADDRESSES, NAMES
from relay_node.file_state import write_whole


def ensure_loopback_serving(serving: Path) -> Path:
    """Makes the file with certificate and key, readable by its owner only, where it is not there;
    returns that with the certificate alone, beside it. Raises `BadInput` naming the file."""
    if not serving.name or serving.suffix == ".crt":
        raise BadInput(
            f"--serving {serving}: the certificate goes beside it with the suffix .crt; name a "
            "file like serving.pem"
        )
    certificate_file = serving.with_suffix(".crt")
    try:
        if not serving.exists():
            made = self_signed("relay-sidecar of this pod", [*NAMES, *ADDRESSES])
            write_whole(serving, "".join(made).encode(), mode=0o600)
        certificate, _, _ = serving.read_bytes().partition(BEGIN_KEY.encode())
        write_whole(certificate_file, certificate, mode=0o644)
    except OSError as error:
        raise BadInput(
            f"--serving {serving}: {error.strerror or error}; name a file in an empty directory "
            "that can be written, like an emptyDir"
        ) from error
    return certificate_file
