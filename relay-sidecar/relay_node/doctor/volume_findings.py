"""What would fail of the volumes of pods, beside Secrets, ConfigMaps and tokens.

Pure: facts in, findings out.
"""

from collections.abc import Iterator
from typing import Final

from relay_node.doctor.facts import Facts, Relay
from relay_node.doctor.finding import Finding, unknown
from relay_node.doctor.pods import Pod

_CLAIMS, _VOLUMES = "persistentvolumeclaims.v1.", "persistentvolumes.v1."
_CSI_NODES = "csinodes.v1.storage.k8s.io"
_CSI_DRIVERS: Final = "csidrivers.v1.storage.k8s.io"
_BUNDLES: Final = "clustertrustbundles.v1.certificates.k8s.io"
_RESTART: Final = "restart kubelet while the link is up"


def of_volumes(pod: Pod, facts: Facts, relay: Relay) -> Iterator[Finding]:
    for claim in pod.claims():
        yield from _of_claim(pod, claim, facts, relay)
    if pod.has_source("pod_certificate"):
        why = "each start of it needs a certificate that only the cloud signs"
        yield Finding(str(pod), why, "give it a Secret with a certificate instead")
    if pod.has_source("cluster_trust_bundle") and not relay.keeps(_BUNDLES):
        yield Finding(str(pod), "ClusterTrustBundles are not kept", _RESTART)
    for driver in sorted(pod.drivers()):
        if not relay.keeps(_CSI_DRIVERS):
            yield Finding(str(pod), "CSIDrivers are not kept", _RESTART)
        why = f"what the CSI driver {driver} asks for itself is not known"
        yield unknown(str(pod), why, "see that it works while cut")
    for volume in pod.spec.volumes:
        if volume.is_remote:
            why = f"whether the server of volume {volume.name} is reached while cut is not known"
            yield unknown(str(pod), why, "see that it is on this side of the link")
    if pod.spec.resource_claims:
        why = "whether its ResourceClaims are prepared without the cloud is not known"
        yield unknown(str(pod), why, "see that its driver works while cut")


def _of_claim(pod: Pod, claim: str, facts: Facts, relay: Relay) -> Iterator[Finding]:
    namespace = pod.metadata.namespace
    if not relay.keeps(_CLAIMS, namespace=namespace, name=claim):
        yield Finding(str(pod), f"PersistentVolumeClaim {claim} is not kept", _RESTART)
        return
    volume = facts.volumes.get((namespace, claim))
    if volume and not relay.keeps(_VOLUMES, name=volume):
        yield Finding(str(pod), f"PersistentVolume {volume} is not kept", _RESTART)


def of_csi_node(facts: Facts, relay: Relay) -> Iterator[Finding]:
    if not relay.keeps(_CSI_NODES, name=facts.node):
        why = f"CSINode {facts.node} is not kept, without which kubelet ends again and again"
        yield Finding("kubelet", why, _RESTART)
