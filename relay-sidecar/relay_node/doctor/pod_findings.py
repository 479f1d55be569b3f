"""What would fail at a reboot now of the pods: Secrets, tokens, ConfigMaps, images, addresses.

Pure: facts in, findings out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from relay_node.doctor.facts import Facts, KeptToken, Relay, Reservation, Stream
from relay_node.doctor.finding import Finding, unknown
from relay_node.doctor.network_findings import has_image
from relay_node.doctor.pods import Container, Pod, Token, image_name
from relay_node.doctor.unknown import Unknown
from relay_node.doctor.volume_findings import of_csi_node, of_volumes

_SECRETS, _CONFIG_MAPS = "secrets.v1.", "configmaps.v1."
_RESTART_KUBELET: Final = "restart kubelet while the link is up"


def of_pods(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.pods, Unknown):
        # The relay does not answer a certificate that has ended, as doctor presents it, while it
        # knows nothing of it; kubelet's own requests it may answer all the same.
        finding = unknown if _has_ended(facts) else Finding
        yield finding("the pods of this node", facts.pods.why, _RESTART_KUBELET)
        return
    pods = [pod for pod in facts.pods if pod.starts_again]
    if isinstance(facts.relay, Relay):
        if pods:
            yield from of_csi_node(facts, facts.relay)
        yield from _of_kept(pods, facts.relay)
        yield from _of_config_maps(pods, facts.relay)
        for pod in pods:
            yield from of_volumes(pod, facts, facts.relay)
    for pod in facts.pods:
        if not pod.is_over:
            for container in pod.containers:
                yield from _of_image(pod, container, facts)
    yield from _of_addresses(pods, facts.reservations)


def _has_ended(facts: Facts) -> bool:
    certificate = facts.certificate
    return not isinstance(certificate, Unknown) and certificate.not_after <= facts.now


def _of_kept(pods: Sequence[Pod], relay: Relay) -> Iterator[Finding]:
    """Secrets and tokens: one finding for all where none are kept."""
    if relay.secrets.is_kept:
        streams = relay.streams_by_name(_SECRETS)
        for pod in pods:
            yield from _of_tokens(pod, relay.tokens)
            yield from _of_objects(pod, "Secret", pod.secrets(), streams)
            yield from _of_pull_secrets(pod, streams)
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
    pod: Pod, kind: str, names: Mapping[str, bool], streams: dict[tuple[str, str], Stream]
) -> Iterator[Finding]:
    """`names`: and whether each is optional. Without an optional one kubelet starts the pod where
    the relay answers that it does not exist."""
    for name, is_optional in sorted(names.items()):
        stream = streams.get((pod.metadata.namespace, name))
        if stream is None or stream.resource_version is None:
            yield Finding(str(pod), f"{kind} {name} is not kept", _RESTART_KUBELET)
        elif not stream.objects and not is_optional:
            yield Finding(str(pod), f"{kind} {name} does not exist", "create it")


def _of_pull_secrets(pod: Pod, streams: dict[tuple[str, str], Stream]) -> Iterator[Finding]:
    for reference in pod.spec.image_pull_secrets:
        stream = streams.get((pod.metadata.namespace, reference.name))
        if stream is None or stream.resource_version is None:
            why = (
                f"imagePullSecret {reference.name} is not kept: whether kubelet starts it with the "
                "image that it has depends on imagePullCredentialsVerificationPolicy"
            )
            yield unknown(str(pod), why, _RESTART_KUBELET)


def _of_image(pod: Pod, container: Container, facts: Facts) -> Iterator[Finding]:
    what = f"{pod}, container {container.name}"
    if container.image_pull_policy == "Always":
        yield Finding(
            what,
            f"imagePullPolicy Always: kubelet asks the registry for {container.image} each time",
            "set IfNotPresent, or have the registry on this side of the link",
        )
    elif not _is_there(pod, container, facts):
        yield Finding(what, f"image {container.image} is not on the node", "pull it")


def _is_there(pod: Pod, container: Container, facts: Facts) -> bool:
    """By what the runtime lists, or else the Node."""
    images = facts.machine.images
    if not isinstance(images, Unknown):
        return image_name(container.image) in images
    listed = facts.images
    return listed is None or has_image(listed, pod.names_of_image(container))


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
