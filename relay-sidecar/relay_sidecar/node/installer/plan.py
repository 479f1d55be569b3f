"""What `node install` changes, computed before anything is: files and units, from what is there."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import Address, BadInput
from relay_sidecar.node.installer import cni, kubelet, snapshot, units
from relay_sidecar.node.installer.installation import PUBLIC_CA, SERVING, FileChange, Installation

UPSTREAM_CA: Final = Path("node/upstream-ca.crt")
CLIENT_CA: Final = Path("node/client-ca.crt")
POD_KUBECONFIG: Final = Path("public/kubeconfig")
POD_TOKEN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
# As long as --retain: kube-proxy, CoreDNS and flanneld bring tokens; a node on which these are not
# taken any more has no Services after a reboot.
OFFLINE_TTL: Final = "7d"
# kubelet renews its Lease more often, which is a sign of life: a node at rest needs no probes.
# Where an answer does not come, the relay looks at once.
PROBE_INTERVAL: Final = "15s"
# As long as client-go watches, at most, and the API server does not look at a watch's rights again.
ACCESS_TTL: Final = "10m"
KUBELET_UNIT: Final = "kubelet.service"
# Of a credential for --keep-secrets: systemd.exec(5), LoadCredentialEncrypted=.
CREDENTIAL: Final = "relay-sidecar-key"


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """As told to `relay-sidecar node install`."""

    kubelet_kubeconfig: Path
    data_dir: Path
    listen: Address
    pod_listen: Address | None
    client_ca_file: Path
    keep_secrets: Path | None
    sticky_ipam: Path | None
    program: tuple[str, ...] = field(default_factory=lambda: (sys.argv[0],))
    more_flags: tuple[str, ...] = ()

    @property
    def upstream_kubeconfig(self) -> Path:
        """kubelet's as it was, beside it: for what may not go through the relay."""
        path = self.kubelet_kubeconfig
        return path.with_name(f"{path.stem}-upstream{path.suffix}")

    @property
    def credential(self) -> tuple[str, Path] | None:
        """Where the key is an encrypted credential of systemd: its name, and its file."""
        if self.keep_secrets is None or self.keep_secrets.name != CREDENTIAL:
            return None
        return CREDENTIAL, self.keep_secrets


@dataclass(frozen=True)
class Plan:
    """`notes` are for the person who installs."""

    changes: list[FileChange]
    notes: list[str]


def plan(options: NodeOptions, installation: Installation) -> Plan:
    """Raises `BadInput`, with nothing changed."""
    upstream, kubeconfig = _upstream(options, installation)
    networks, notes = _networks(options, installation)
    data_dir = options.data_dir
    by_relay = kubelet.by_way_of_relay(
        kubeconfig, listen=options.listen, authority=data_dir / PUBLIC_CA
    )
    past_relay = kubelet.past_relay(kubeconfig, upstream.authorities)
    of_pods = kubelet.of_pods(
        listen=options.listen, authority=data_dir / PUBLIC_CA, token=POD_TOKEN
    )
    changes = [
        FileChange(data_dir / UPSTREAM_CA, upstream.authorities),
        FileChange(data_dir / CLIENT_CA, _client_ca(options, installation)),
        FileChange(data_dir / POD_KUBECONFIG, of_pods),
        # Before kubelet's own changes: a member of a pool reads both.
        FileChange(options.upstream_kubeconfig, past_relay, 0o600),
        FileChange(options.kubelet_kubeconfig, by_relay, 0o600),
        FileChange(units.KUBELET_DROP_IN, units.kubelet_drop_in().encode()),
        *(
            FileChange(units.FOLDER / name, text.encode())
            for name, text in _units(options, upstream).items()
        ),
        *networks,
    ]
    return Plan(changes, notes)


def _upstream(options: NodeOptions, installation: Installation) -> tuple[kubelet.Upstream, bytes]:
    """As kubelet's kubeconfig has it, or had it before the installation."""
    path = options.kubelet_kubeconfig
    content = installation.original(path)
    source = installation.on_node(path)
    if content is None:
        raise BadInput(f"--kubelet-kubeconfig {path} does not exist: name kubelet's own")
    change = installation.recorded().get(path)
    if change is not None:
        source = installation.backup(change)
    found = kubelet.read_upstream(source, listen=options.listen, relative_to=path.parent)
    return found, content


def _client_ca(options: NodeOptions, installation: Installation) -> bytes:
    path = options.client_ca_file
    try:
        return installation.on_node(path).read_bytes()
    except OSError as error:
        raise BadInput(
            f"--client-ca-file {path}: {error.strerror or error}; name kubelet's own "
            "(authentication.x509.clientCAFile of its configuration)"
        ) from error


def _units(options: NodeOptions, upstream: kubelet.Upstream) -> dict[str, str]:
    data_dir, program = options.data_dir, options.program
    prepare = ["node", "prepare", f"--data-dir={data_dir}"]
    if options.pod_listen is not None:
        prepare.append(f"--pod-listen={options.pod_listen}")
    found = {
        units.RELAY: units.relay(
            program,
            prepare=prepare,
            flags=_flags(options, upstream),
            credential=options.credential,
        ),
        **units.snapshot(program, data_dir=data_dir, watched=snapshot.SAVED),
    }
    if options.sticky_ipam is not None:
        kubeconfig = options.kubelet_kubeconfig
        found |= units.ipam_gc(program, data_dir=data_dir, kubeconfig=kubeconfig)
    return found


def _flags(options: NodeOptions, upstream: kubelet.Upstream) -> list[str]:
    data_dir = options.data_dir
    flags = [
        f"--listen={options.listen}",
        f"--server={upstream.server}",
        f"--client-certificate={upstream.certificate}",
        f"--client-key={upstream.key}",
        f"--certificate-authority={data_dir / UPSTREAM_CA}",
        f"--client-ca-file={data_dir / CLIENT_CA}",
        f"--kubelet-unit={KUBELET_UNIT}",
        "--access=caller",
        f"--access-ttl={ACCESS_TTL}",
        f"--access-offline-ttl={OFFLINE_TTL}",
        f"--probe-interval={PROBE_INTERVAL}",
        f"--tls-cert-file={data_dir / SERVING}",
        f"--tls-private-key-file={data_dir / SERVING}",
        f"--data-dir={data_dir / 'journal'}",
        "--log-refusals",
        *options.more_flags,
    ]
    if options.pod_listen is not None:
        flags.append(f"--pod-listen={options.pod_listen}")
    if options.keep_secrets is not None and options.credential is None:
        flags.append(f"--keep-secrets={options.keep_secrets}")
    return flags


def _networks(
    options: NodeOptions, installation: Installation
) -> tuple[list[FileChange], list[str]]:
    if options.sticky_ipam is None:
        return [], ["--sticky-ipam is none: pods may come back with other addresses"]
    try:
        binary = options.sticky_ipam.read_bytes()
    except OSError as error:
        raise BadInput(
            f"--sticky-ipam {options.sticky_ipam}: {error.strerror or error}; name the binary of "
            "the release, or none"
        ) from error
    changes, notes = [FileChange(cni.BINARY, binary, 0o755)], list[str]()
    folder = installation.on_node(cni.CONFIGURATIONS)
    state_dir = options.data_dir / cni.STATE
    for found in sorted((*folder.glob("*.conflist"), *folder.glob("*.conf"))):
        path = cni.CONFIGURATIONS / found.name
        change, said = cni.sticky(path, installation.original(path) or b"", state_dir=state_dir)
        notes += said
        changes += [change] if change is not None else []
    return changes, notes
