"""What would fail at a reboot now, with the link cut: nobody can test a factory's power cut.

Pure: facts in, findings out. What is not known is no finding, but for what nothing can be said
without (the pods, the relay's own state).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from edge_sidecars.apimachinery.selection.fields import FieldSelector
from relay_sidecar.node.pods import Container, Pod, Token

# Seconds; a clock that is kept right by NTP is off by less than one.
MAX_CLOCK_OFFSET: Final = 30.0
# Kubelet renews its certificate after 70 to 90 % of its life (client-go, certificate_manager.go).
RENEWED_BEFORE: Final = 0.1
# Filesystems in memory.
VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
# Kubelet that is given --bootstrap-kubeconfig, as by kubeadm, does not start with a certificate
# that has ended (pkg/kubelet/certificate/bootstrap, isClientConfigStillValid): no remedy is then to
# restart it.
_NEW_CERTIFICATE: Final = (
    "give kubelet a --bootstrap-kubeconfig with a new token (kubeadm token create) before it "
    "starts again"
)
_RENEW: Final = (
    "restart kubelet while the link is up, and approve its CertificateSigningRequest "
    "(`kubectl get csr`)"
)
_SET_CLOCK: Final = "set it, and see that NTP and the clock's battery work"
_SECRETS, _CONFIG_MAPS = "secrets.v1.", "configmaps.v1."
_RESTART_KUBELET: Final = "restart kubelet while the link is up"
_RESTART_BOTH: Final = "then restart the relay, and kubelet while the link is up"


@dataclass(frozen=True)
class Finding:
    """`what` fails, `why`, and what helps."""

    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"fails: {self.what}: {self.why}; {self.remedy}"


# ── facts ──


@dataclass(frozen=True)
class Unknown:
    why: str


class _Struct(msgspec.Struct, rename="camel"):
    pass


class Link(_Struct):
    is_up: bool
    state: Literal["up", "unauthorized", "relayed", "down"]


class JournalState(_Struct):
    directory: str | None
    failure: str | None


class SecretsState(_Struct):
    is_kept: bool
    failure: str | None


class KeptToken(_Struct):
    namespace: str
    service_account: str
    pod_uid: str = msgspec.field(name="podUID")
    audiences: tuple[str, ...]
    expiration_seconds: int | None


class Stream(_Struct):
    """`resource_version` None: not listed yet."""

    resource: str
    namespace: str
    field_selector: str
    objects: int
    resource_version: str | None


class Relay(_Struct):
    """What is needed of its /status."""

    lack: str | None
    link: Link
    journal: JournalState
    secrets: SecretsState
    tokens: tuple[KeptToken, ...]
    streams: tuple[Stream, ...]

    def streams_by_name(self, resource: str) -> dict[tuple[str, str], Stream]:
        """Those by name, by namespace and name."""
        found = {}
        for stream in self.streams:
            if stream.resource == resource and stream.namespace:
                name = FieldSelector.parse(stream.field_selector).exact("metadata.name")
                found[stream.namespace, name or ""] = stream
        return found


class Reservation(msgspec.Struct, frozen=True):
    """As `sticky-ipam list` has it; `uid` "" where the runtime did not name it."""

    addresses: list[str]
    uid: str = ""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True)
class Certificate:
    """The node's; Unix times."""

    not_before: float
    not_after: float


@dataclass(frozen=True)
class Kubeconfig:
    """Kubelet's; `is_by_relay`: its server is the relay."""

    path: Path
    server: str
    is_by_relay: bool


@dataclass(frozen=True)
class Deviation:
    """A file that is not as it was installed; `backup`: of what was before, None for nothing."""

    path: Path
    backup: Path | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Of one node. `images`: their full names, None where nobody lists all of them;
    `reservations`: None where the pods' network is not sticky-ipam's; `upstream_time`: Unix time of
    the API server, None where it was not heard; `filesystem`: of the relay's data directory;
    `outdated`: files of which the snapshot is missing or old."""

    now: float
    relay: Relay | Unknown
    pods: Sequence[Pod] | Unknown
    images: Collection[str] | None
    reservations: Sequence[Reservation] | Unknown | None
    certificate: Certificate
    upstream_time: float | None
    kubeconfig: Kubeconfig
    filesystem: str
    outdated: Sequence[Path]
    deviations: Sequence[Deviation]


# ── findings ──


def findings(facts: Facts) -> list[Finding]:
    """The node as a whole first, then pod by pod."""
    return [
        *_of_relay(facts),
        *_of_kubelet(facts),
        *_of_files(facts),
        *_of_clock(facts),
        *_of_pods(facts),
    ]


def notes(facts: Facts) -> list[str]:
    """What could not be looked at, or is not of now."""
    found = []
    relay = facts.relay
    if isinstance(relay, Relay) and not relay.link.is_up:
        found.append(
            "the link is down: pods, images, Secrets and tokens are those that the relay last knew"
        )
    if facts.upstream_time is None:
        found.append("the API server did not tell its time: the clock was not compared")
    if facts.images is None:
        found.append(
            "the Node does not list all of its images (kubelet reports 50): a missing one would "
            "not be seen"
        )
    return found


def _of_relay(facts: Facts) -> Iterator[Finding]:
    relay = facts.relay
    if isinstance(relay, Unknown):
        yield Finding(
            "the relay", relay.why, "`relay-sidecar node status` says why; start it, then ask again"
        )
        return
    if relay.lack:
        yield Finding("the relay", f"it is not ready: {relay.lack}", "wait, then ask again")
    if relay.link.state == "unauthorized":
        why = "the API server refuses it (401)"
        yield Finding("the node's certificate", why, _NEW_CERTIFICATE)
    yield from _of_journal(relay, facts.filesystem)


def _of_journal(relay: Relay, filesystem: str) -> Iterator[Finding]:
    what, directory = "what the relay keeps", relay.journal.directory
    if directory is None:
        yield Finding(what, "it is in memory only", "start the relay with --data-dir on a disk")
    elif filesystem in VOLATILE:
        why = f"{directory} is on {filesystem}, which a reboot empties"
        yield Finding(what, why, "put --data-dir on a disk")
    if relay.journal.failure is not None:
        yield Finding(what, relay.journal.failure, "free or repair that disk")
    if relay.secrets.failure is not None:
        yield Finding("Secrets and tokens", relay.secrets.failure, _RESTART_BOTH)


def _of_kubelet(facts: Facts) -> Iterator[Finding]:
    it = facts.kubeconfig
    if not it.is_by_relay:
        yield Finding(
            "kubelet",
            f"{it.path} leads to {it.server}, not to the relay",
            "run `relay-sidecar node install` again",
        )
    certificate = facts.certificate
    left = certificate.not_after - facts.now
    if left <= 0:
        why = "it has ended, and kubelet does not start with it"
        yield Finding("the node's certificate", why, _NEW_CERTIFICATE)
    elif left <= RENEWED_BEFORE * (certificate.not_after - certificate.not_before):
        why = f"it ends in {left / 3600:.1f} h, and kubelet should have renewed it by now"
        yield Finding("the node's certificate", why, _RENEW)


def _of_files(facts: Facts) -> Iterator[Finding]:
    for path in facts.outdated:
        yield Finding(
            "the network of pods",
            f"{path} is gone with a reboot, and its copy is missing or old",
            "run `relay-sidecar node snapshot`, and see that "
            "relay-sidecar-snapshot.path is enabled",
        )
    for deviation in facts.deviations:
        before = f"copy {deviation.backup} there" if deviation.backup else "delete it"
        yield Finding(
            "the installation",
            f"{deviation.path} is not as it was installed",
            f"{before}, then run `relay-sidecar node install` again with the same flags",
        )


def _of_clock(facts: Facts) -> Iterator[Finding]:
    """Without the API server's time a clock is known to be behind where it is at a time before the
    node's certificate was issued: TLS to the API server fails then, since its certificate is taken
    for one that does not hold yet."""
    if facts.upstream_time is not None:
        offset = facts.now - facts.upstream_time
        if abs(offset) > MAX_CLOCK_OFFSET:
            side = "ahead of" if offset > 0 else "behind"
            why = f"it is {abs(offset):.0f} s {side} the API server's, by which certificates count"
            yield Finding("the clock", why, _SET_CLOCK)
    elif facts.now < facts.certificate.not_before:
        days = (facts.certificate.not_before - facts.now) / 86400
        why = f"it is {days:.1f} days before the node's certificate begins"
        yield Finding("the clock", why, _SET_CLOCK)


# ── pods ──


def _of_pods(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.pods, Unknown):
        yield Finding("the pods of this node", facts.pods.why, _RESTART_KUBELET)
        return
    pods = [pod for pod in facts.pods if pod.starts_again]
    if isinstance(facts.relay, Relay):
        yield from _of_kept(pods, facts.relay)
        yield from _of_config_maps(pods, facts.relay)
    for pod in pods:
        for container in pod.containers:
            yield from _of_image(pod, container, facts.images)
    yield from _of_addresses(pods, facts.reservations)


def _of_kept(pods: Sequence[Pod], relay: Relay) -> Iterator[Finding]:
    """Secrets and tokens: one finding for all where none are kept."""
    if relay.secrets.is_kept:
        streams = relay.streams_by_name(_SECRETS)
        for pod in pods:
            yield from _of_tokens(pod, relay.tokens)
            yield from _of_objects(pod, "Secret", pod.secrets(), streams)
        return
    count = sum(1 for pod in pods if pod.secrets() or any(pod.tokens()))
    if count and relay.secrets.failure is None:
        yield Finding(
            "Secrets and tokens",
            f"none is kept, and {count} pods need some",
            "install with --keep-secrets KEYFILE",
        )


def _of_tokens(pod: Pod, kept: Sequence[KeptToken]) -> Iterator[Finding]:
    account = pod.spec.service_account_name
    for token in pod.tokens():
        if not any(_is_for(pod, token, each) for each in kept):
            audience = f" for {token.audience}" if token.audience else ""
            why = f"no token of ServiceAccount {account}{audience} is kept for it"
            yield Finding(str(pod), why, _RESTART_KUBELET)


def _is_for(pod: Pod, token: Token, kept: KeptToken) -> bool:
    audiences = (token.audience,) if token.audience else ()
    wanted = pod.metadata.namespace, pod.spec.service_account_name, pod.metadata.uid
    return (kept.namespace, kept.service_account, kept.pod_uid) == wanted and (
        (kept.audiences, kept.expiration_seconds) == (audiences, token.expiration_seconds)
    )


def _of_config_maps(pods: Sequence[Pod], relay: Relay) -> Iterator[Finding]:
    streams = relay.streams_by_name(_CONFIG_MAPS)
    # A list of more than one has it too.
    wide = [it for it in relay.streams if it.resource == _CONFIG_MAPS and not it.field_selector]
    for pod in pods:
        own = ("", pod.metadata.namespace)
        if not any(it.namespace in own and it.resource_version is not None for it in wide):
            yield from _of_objects(pod, "ConfigMap", pod.config_maps(), streams)


def _of_objects(
    pod: Pod, kind: str, names: Collection[str], streams: dict[tuple[str, str], Stream]
) -> Iterator[Finding]:
    for name in sorted(names):
        stream = streams.get((pod.metadata.namespace, name))
        if stream is None or stream.resource_version is None:
            yield Finding(str(pod), f"{kind} {name} is not kept", _RESTART_KUBELET)
        elif not stream.objects:
            yield Finding(str(pod), f"{kind} {name} does not exist", "create it")


def _of_image(pod: Pod, container: Container, images: Collection[str] | None) -> Iterator[Finding]:
    what = f"{pod}, container {container.name}"
    if container.image_pull_policy == "Always":
        yield Finding(
            what,
            f"imagePullPolicy Always: kubelet asks the registry for {container.image} each time",
            "set IfNotPresent, or have the registry on this side of the link",
        )
    elif images is not None and not any(name in images for name in pod.names_of_image(container)):
        yield Finding(what, f"image {container.image} is not on the node", "pull it")


def _of_addresses(
    pods: Sequence[Pod], reservations: Sequence[Reservation] | Unknown | None
) -> Iterator[Finding]:
    own = [pod for pod in pods if pod.addresses]
    if not own:
        return
    if reservations is None:
        yield Finding(
            "addresses of pods",
            f"their network is not set up by sticky-ipam: {len(own)} pods may come back with other "
            "addresses, and services be dead until the link is back",
            "see what `relay-sidecar node install --dry-run` notes about the network",
        )
    elif isinstance(reservations, Unknown):
        yield Finding("addresses of pods", reservations.why, "run it by hand")
    else:
        for pod in own:
            if not any(_is_of(pod, each) for each in reservations):
                addresses = ", ".join(sorted(pod.addresses))
                why = f"no reservation keeps its address {addresses}"
                yield Finding(str(pod), why, "delete the pod, so that it is made anew")


def _is_of(pod: Pod, reservation: Reservation) -> bool:
    """A pod's uid, or where the runtime named none its name; and all of its addresses."""
    it = reservation
    named = (it.namespace, it.name) == (pod.metadata.namespace, pod.metadata.name)
    is_its = it.uid == pod.metadata.uid if it.uid else named
    return is_its and pod.addresses == frozenset(it.addresses)
