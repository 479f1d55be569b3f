"""Whose client certificate kubelet's kubeconfig has: the node's own."""

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from edge_sidecars.kubeapi.kubeconfig_file import FileOrInline, KubeContext, context_of_texts
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from relay_node.file_state import read_regular


@dataclass(frozen=True)
class Identity:
    """`user`: a name of RBAC, "" where there is none; the times are Unix time."""

    user: str
    not_before: float
    not_after: float


def context_of(kubeconfig: Path) -> KubeContext:
    """Raises `BadInput`."""
    try:
        return context_of_texts({kubeconfig: read_regular(kubeconfig).decode()}, None)
    except (OSError, ValueError) as error:
        why = describe_failure(error)
        raise BadInput(f"--kubeconfig {kubeconfig}: {why}; name kubelet's") from error


def content_of(source: FileOrInline) -> bytes:
    """Raises OSError."""
    return source.inline if source.path is None else read_regular(source.path)


def identity_of(context: KubeContext, kubeconfig: Path) -> Identity:
    """`kubeconfig`: where the context is from. Raises `BadInput`."""
    if context.pair is None:
        raise BadInput(f"--kubeconfig {kubeconfig} has no client certificate: name kubelet's")
    try:
        found = x509.load_pem_x509_certificate(content_of(context.pair[0]))
    except (OSError, ValueError) as error:
        why = describe_failure(error)
        raise BadInput(f"the client certificate of --kubeconfig {kubeconfig}: {why}") from error
    user = common_name(found, f"the client certificate of --kubeconfig {kubeconfig}")
    times = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return Identity(user, *times)


def common_name(certificate: x509.Certificate, named: str) -> str:
    """The user of the certificate, "" where it has none. Raises `BadInput` for several common
    names: the API server takes the last one, and others take the first."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) > 1:
        several = ", ".join(str(each.value) for each in names)
        raise BadInput(f"{named} has several common names, {several}: use one with a single name")
    return str(names[0].value) if names else ""
