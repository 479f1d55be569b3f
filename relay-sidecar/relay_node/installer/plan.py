"""What `node install` changes, computed before anything is: files and units, from what is there."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from edge_sidecars.runtime.cli.proxies import HTTPS, NO, proxy_variables
from edge_sidecars.runtime.cli.values import Address, BadInput
from relay_node.file_state import FileChange, read_regular
from relay_node.installer import cni, kubelet, leftovers, snapshot
from relay_node.installer.installation import PUBLIC_CA, SERVING, Installation
from relay_node.installer.systemd import units

UPSTREAM_CA: Final = Path("node/upstream-ca.crt")
CLIENT_CA: Final = Path("node/client-ca.crt")
# Variables of the relay's unit: a proxy's URL may have a password.
ENVIRONMENT: Final = Path("node/environment")
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
    """As given to `relay-sidecar node install`. `kubelet_environ`: the variables of kubelet's
    unit."""

    kubelet_kubeconfig: Path
    data_dir: Path
    listen: Address
    pod_listen: Address | None
    client_ca_file: Path
    keep_secrets: Path | None
    sticky_ipam: Path | None
    program: tuple[str, ...] = field(default_factory=lambda: (sys.argv[0],))
    more_flags: tuple[str, ...] = ()
    kubelet_environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def recorded(self) -> dict[str, Any]:
        """What the next installation takes where it is given nothing else."""
        return {
            "kubelet_kubeconfig": str(self.kubelet_kubeconfig),
            "listen": str(self.listen),
            "pod_listen": _text(self.pod_listen),
            "client_ca_file": str(self.client_ca_file),
            "keep_secrets": _text(self.keep_secrets),
            "sticky_ipam": _text(self.sticky_ipam),
            "flags": list(self.more_flags),
        }

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


def _text(value: object) -> str:
    return "none" if value is None else str(value)


@dataclass(frozen=True)
class Plan:
    """`notes` are for the person who installs. `flags` are the relay's; `late`: paths that are
    changed only once the relay serves."""

    changes: list[FileChange]
    notes: list[str]
    upstream: kubelet.KubeletUpstream
    flags: list[str]
    late: frozenset[Path]

    @property
    def units(self) -> list[str]:
        """Names of those that run from now on, the relay's first."""
        links = (it.path.name for it in self.changes if it.link)
        return sorted(set(links), key=lambda name: (name != units.RELAY, name))


def plan(options: NodeOptions, installation: Installation) -> Plan:
    """Raises `BadInput`, with nothing changed."""
    upstream, kubeconfig = _upstream(options, installation)
    networks, notes = _networks(options, installation)
    notes = [*_notes(options), *notes]
    data_dir = options.data_dir
    by_relay = kubelet.by_way_of_relay(
        kubeconfig, listen=options.listen, authority=data_dir / PUBLIC_CA
    )
    past_relay = kubelet.past_relay(kubeconfig, upstream.authorities)
    of_pods = kubelet.of_pods(
        listen=options.listen, authority=data_dir / PUBLIC_CA, token=POD_TOKEN
    )
    texts = _units(options, upstream)
    mode = installation.original_mode(options.kubelet_kubeconfig, 0o600)
    first = [
        FileChange(data_dir / UPSTREAM_CA, upstream.authorities),
        FileChange(data_dir / CLIENT_CA, client_ca(options, installation)),
        FileChange(data_dir / POD_KUBECONFIG, of_pods),
        *_environment(options, upstream),
        FileChange(options.upstream_kubeconfig, past_relay, 0o600),
        *(FileChange(units.FOLDER / name, text.encode()) for name, text in texts.items()),
    ]
    # kubelet's kubeconfig last of all: whatever happens before, kubelet goes on as it did.
    late = [
        *networks,
        *(FileChange(path, None, link=to) for path, to in units.enabled(texts).items()),
        FileChange(units.KUBELET_DROP_IN, units.kubelet_drop_in().encode()),
        FileChange(options.kubelet_kubeconfig, by_relay, mode),
    ]
    return Plan(
        [*first, *late],
        notes,
        upstream,
        _flags(options, upstream),
        frozenset(change.path for change in late),
    )


def _notes(options: NodeOptions) -> list[str]:
    if options.keep_secrets is not None:
        return []
    return [
        "without --keep-secrets a pod that needs a Secret or a service account's token does not "
        "come back after a reboot while cut: name a key to keep them, sealed"
    ]


def _upstream(
    options: NodeOptions, installation: Installation
) -> tuple[kubelet.KubeletUpstream, bytes]:
    """As kubelet's kubeconfig has it, or had it before the installation."""
    path = options.kubelet_kubeconfig
    content = installation.original(path)
    if content is None:
        raise BadInput(f"--kubelet-kubeconfig {path} does not exist: name kubelet's own")
    found = kubelet.read_upstream(
        content, kubeconfig=path, place=installation.on_node(path), listen=options.listen
    )
    return found, content


def client_ca(options: NodeOptions, installation: Installation) -> bytes:
    path = options.client_ca_file
    try:
        return read_regular(installation.on_node(path))
    except OSError as error:
        raise BadInput(
            f"--client-ca-file {path}: {error.strerror or error}; name kubelet's own "
            "(authentication.x509.clientCAFile of its configuration)"
        ) from error


def _units(options: NodeOptions, upstream: kubelet.KubeletUpstream) -> dict[str, str]:
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
            writes=data_dir,
            environment=data_dir / ENVIRONMENT if _variables(options, upstream) else None,
        ),
        **units.snapshot(program, data_dir=data_dir, watched=snapshot.SAVED),
    }
    if options.sticky_ipam is not None:
        kubeconfig = options.kubelet_kubeconfig
        found |= units.ipam_gc(program, data_dir=data_dir, kubeconfig=kubeconfig)
    return found


def _environment(options: NodeOptions, upstream: kubelet.KubeletUpstream) -> list[FileChange]:
    variables = _variables(options, upstream)
    if not variables:
        return []
    content = units.environment(variables).encode()
    return [FileChange(options.data_dir / ENVIRONMENT, content, 0o600)]


def _variables(options: NodeOptions, upstream: kubelet.KubeletUpstream) -> dict[str, str]:
    """By which proxy kubelet reaches the API server: that of its kubeconfig, for which NO_PROXY
    counts nothing (client-go), else that of its unit. Raises `BadInput`."""
    if upstream.proxy:
        return {HTTPS[0]: upstream.proxy, NO[0]: ""}
    found = proxy_variables(options.kubelet_environ)
    if not found.https[1]:
        return {}
    # One that cannot be used is said now.
    found.proxy_for(upstream.server)
    return {HTTPS[0]: found.https[1], NO[0]: found.no_proxy}


def _flags(options: NodeOptions, upstream: kubelet.KubeletUpstream) -> list[str]:
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
    if upstream.tls_server_name:
        flags.append(f"--tls-server-name={upstream.tls_server_name}")
    if options.pod_listen is not None:
        flags.append(f"--pod-listen={options.pod_listen}")
    if options.keep_secrets is not None and options.credential is None:
        flags.append(f"--keep-secrets={options.keep_secrets}")
    return flags


def _networks(
    options: NodeOptions, installation: Installation
) -> tuple[list[FileChange], list[str]]:
    if options.sticky_ipam is None:
        note = "--sticky-ipam is none: pods may come back with other addresses"
        return leftovers.kept_plugin(installation), [note]
    try:
        binary = read_regular(options.sticky_ipam)
    except OSError as error:
        raise BadInput(
            f"--sticky-ipam {options.sticky_ipam}: {error.strerror or error}; name the binary of "
            "the release's archive (pip does not bring it), or none"
        ) from error
    folder = installation.on_node(cni.CONFIGURATIONS)
    state_dir = options.data_dir / cni.STATE
    changes, notes = list[FileChange](), list[str]()
    for found in cni.configurations(folder):
        path = cni.CONFIGURATIONS / found.name
        change, said = cni.sticky(
            path,
            installation.original(path) or b"",
            state_dir=state_dir,
            mode=installation.original_mode(path, 0o644),
        )
        notes += said
        changes += [change] if change is not None else []
    is_passing = installation.on_node(cni.PASSTHROUGH).exists()
    return [
        *([FileChange(cni.PASSTHROUGH, None)] if is_passing else []),
        # Before what names it.
        FileChange(cni.BINARY, binary, 0o755),
        *changes,
    ], notes
