"""What `node install` is given, read and checked before anything is changed.

Guarantee: what is refused here is named, with the remedy; nothing is changed by looking.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from edge_sidecars.runtime.cli.options import flag
from edge_sidecars.runtime.cli.values import BadInput, describe_failure
from relay_node.file_state import read_regular
from relay_node.identity import common_name
from relay_node.kubelet_api import PREFIX
from relay_sidecar.config.config import Config, load, parser
from relay_sidecar.journal.sealing.key_file import parse_key, read_key_file

# Seconds, of one program that only says what it is.
TIMEOUT: Final = 30.0
# Flags of the relay that `node install` sets, by flags of its own.
_INSTALLERS: Final = frozenset(
    {
        *("listen", "pod_listen", "tls_cert_file", "tls_private_key_file", "server", "kubeconfig"),
        *("context", "client_certificate", "client_key", "certificate_authority"),
        *("tls_server_name", "data_dir", "keep_secrets", "access", "client_ca_file"),
    }
)
# Where distributions that run kubelet in a process of their own have its kubeconfig.
_RANCHER: Final = Path("/var/lib/rancher")
_PEM: Final = "name a PEM file"


def program() -> tuple[str, ...]:
    """What runs this, for a unit of systemd."""
    name = Path(sys.argv[0]).absolute()
    beside = Path(sys.executable).parent / "relay-sidecar"
    if name.name != "__main__.py":
        return (str(name),)
    if os.access(beside, os.X_OK):
        return (str(beside),)
    return sys.executable, "-I", "-m", "relay_sidecar"


def check_program(command: Sequence[str]) -> None:
    """Raises `BadInput` where it does not work without the folder and the variables of now."""
    try:
        done = subprocess.run(
            [*command, "--version"],
            cwd="/",
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
        )
        lines = done.stderr.strip().splitlines()
        why = "" if done.returncode == 0 else (lines[-1] if lines else f"exit {done.returncode}")
    except (OSError, subprocess.SubprocessError) as error:
        why = str(error)
    if why:
        raise BadInput(
            f"{' '.join(command)} does not start from / without this shell's variables: {why}; "
            "install relay-sidecar by its archive or by pip, and run it by that path"
        )


def more_flags(flags: Sequence[str]) -> None:
    """Those after `--`, by the relay's own parser. Raises `BadInput`."""
    try:
        given = vars(parser().parse_args(list(flags)))
    except BadInput as error:
        raise BadInput(f"after --: {error}") from error
    except SystemExit as error:
        raise BadInput(f"after --: {' '.join(flags)}: name flags of `relay-sidecar run`") from error
    for name in sorted(_INSTALLERS):
        if given.get(name) is not None:
            raise BadInput(f"after --: {flag(name)} is what `node install` sets: use its own flags")


def config(flags: Sequence[str]) -> Config:
    """Of the unit. Raises `BadInput`."""
    try:
        return load(list(flags), {})
    except SystemExit as error:
        raise BadInput(f"{' '.join(flags)}: no flags of the relay") from error


def key_file(path: Path, named: Path, *, data_dir: Path) -> None:
    """Of --keep-secrets; `named`: as the relay sees it. Raises `BadInput`."""
    try:
        read_key_file(path, data_dir=data_dir, credentials_dir=None)
    except BadInput as error:
        raise BadInput(str(error).replace(str(path), str(named))) from error


def encrypted_credential(path: Path, named: Path, name: str) -> None:
    """Raises `BadInput`."""
    remedy = f"make it by `systemd-creds encrypt --name={name} KEYFILE {named}`"
    try:
        read_regular(path)
        done = subprocess.run(
            ["systemd-creds", "decrypt", f"--name={name}", str(path), "-"],
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise BadInput(lines[-1] if lines else f"systemd-creds: {done.returncode}")
        parse_key(done.stdout)
    except (OSError, subprocess.SubprocessError, BadInput) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"--keep-secrets {named}: {why}; {remedy}") from error


def authorities(pem: bytes, named: str) -> list[x509.Certificate]:
    """Raises `BadInput`."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise BadInput(f"{named} holds no certificate of a CA: {_PEM}") from error


def node_certificate(
    certificate: Path, key: Path, *, client_ca: Sequence[x509.Certificate], now: float
) -> str:
    """The node's name. Raises `BadInput` for what is no pair, has ended, is no node's, or is not
    signed by the CA that callers of the relay are held to."""
    named = f"kubelet's client certificate {certificate}"
    try:
        pem = read_regular(certificate)
        chain = x509.load_pem_x509_certificates(pem)
        own = chain[0]
        private = serialization.load_pem_private_key(read_regular(key), password=None)
    except (OSError, ValueError, TypeError) as error:
        why = describe_failure(error)
        raise BadInput(f"{named} with key {key}: {why}; start kubelet, which makes both") from error
    if private.public_key() != own.public_key():
        raise BadInput(f"{key} is not the key of {certificate}: start kubelet, which makes both")
    user = common_name(own, named)
    if not user.startswith(PREFIX):
        raise BadInput(f"{named} is of {user or 'nobody'}, no node: name kubelet's kubeconfig")
    if own.not_valid_after_utc.timestamp() <= now:
        raise BadInput(f"{named} ended at {own.not_valid_after_utc:%F %T} UTC: renew it first")
    if not any(_signed(each, by) for each in chain for by in client_ca):
        raise BadInput(
            f"{named} is signed by {own.issuer.rfc4514_string()}, and no CA of --client-ca-file: "
            "name that CA's file"
        )
    return user.removeprefix(PREFIX)


def _signed(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def sticky_binary(path: Path) -> bytes:
    """Raises `BadInput` for what is not this project's plugin for this machine."""
    named = f"--sticky-ipam {path}"
    remedy = "name the binary of the release's archive, or none"
    try:
        content = read_regular(path)
        done = subprocess.run(
            [str(path), "help"], capture_output=True, cwd="/", timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"{named}: {why}; {remedy}") from error
    if b"sticky-ipam" not in done.stderr:
        raise BadInput(f"{named} is another program: {remedy}")
    return content


def distribution(kubeconfig: Path) -> None:
    """Raises `BadInput` for kubelets whose supervisor writes their kubeconfig anew."""
    if Path(os.path.realpath(kubeconfig)).is_relative_to(_RANCHER) or kubeconfig.is_relative_to(
        _RANCHER
    ):
        raise BadInput(
            f"--kubelet-kubeconfig {kubeconfig} is of k3s or RKE2, whose agent writes it anew at "
            "each start: give the agent a kubeconfig of the relay by its own switch kubelet-arg "
            "(docs/how-to/nodes.md, k3s and RKE2)"
        )


def supervisor(root: Path) -> str:
    """Of a node without kubelet's kubeconfig: which distribution it may be, "" for none."""
    for name, folder in (("k3s", "k3s"), ("RKE2", "rke2")):
        if (root / _RANCHER.relative_to("/") / folder / "agent").is_dir():
            return (
                f"this is a node of {name}, whose agent runs kubelet itself and writes its "
                "kubeconfig anew at each start: use its own switch kubelet-arg "
                "(docs/how-to/nodes.md, k3s and RKE2)"
            )
    return ""
