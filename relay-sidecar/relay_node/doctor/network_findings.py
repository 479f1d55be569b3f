"""What would fail of the network of pods: plugins, the sandbox image, names, and the components
that make Services and routes.

Pure: facts in, findings out.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from relay_node.doctor.facts import Facts, Relay
from relay_node.doctor.finding import Finding, unknown
from relay_node.doctor.machine.runtime import Network, Runtime
from relay_node.doctor.pods import Pod, image_name
from relay_node.doctor.unknown import Unknown
from relay_node.installer.cni import STICKY
from relay_sidecar.core.access.node_identity import is_node_component

_NETWORK: Final = "the network of pods"
_NAMES: Final = "names in pods"
_SERVICES, _SLICES = "services.v1.", "endpointslices.v1.discovery.k8s.io"
_NAMESPACES, _NODES = "namespaces.v1.", "nodes.v1."
# What a component cannot do without, by the name of its account: resources that it lists and
# watches.
_PROXY, _DNS = (_SERVICES, _SLICES), (_SERVICES, _SLICES, _NAMESPACES)
_NEEDS: Final = {
    "kube-proxy": _PROXY,
    "coredns": _DNS,
    "coredns-node": _DNS,
    "flannel": (_NODES,),
}
_DNS_PORT: Final = 53
# Seconds; client-go tries again after 30 at most.
SILENCE: Final = 120.0
_LEAD: Final = "lead it to the relay (manifests/overlays/node), and restart it while the link is up"


def of_networks(facts: Facts) -> Iterator[Finding]:
    pods = [] if isinstance(facts.pods, Unknown) else [it for it in facts.pods if it.starts_again]
    hosts = [pod for pod in pods if pod.spec.host_network]
    if any(not pod.spec.host_network for pod in pods):
        yield from _of_configurations(facts, hosts)
        yield from _of_plugins(facts, hosts)
    if pods:
        yield from _of_sandbox(facts)
        yield from _of_names(facts, pods, hosts)
        yield from _of_kubeconfig(facts, hosts)
        yield from _of_components(facts, hosts)


# ── CNI ──


def _of_configurations(facts: Facts, hosts: Sequence[Pod]) -> Iterator[Finding]:
    found = facts.machine.networks
    if isinstance(found, Unknown):
        remedy = "see that all plugins of its network are there"
        yield unknown(_NETWORK, f"its configuration was not looked at: {found.why}", remedy)
        return
    broken = [network for network in found if network.failure]
    for network in broken:
        why = f"{network.path}: {network.failure}"
        finding = Finding(_NETWORK, why, "repair or delete it")
        yield from _unless_written(str(network.path.parent), network.path.name, hosts, finding)
    if not found:
        folder = _folder(facts)
        finding = Finding(_NETWORK, f"{folder} has no configuration", "install a network")
        yield from _unless_written(folder, "*.conf*", hosts, finding)


def _folder(facts: Facts) -> str:
    runtime = facts.machine.runtime_settings
    return str(runtime.networks_folder) if isinstance(runtime, Runtime) else "/etc/cni/net.d"


def _of_plugins(facts: Facts, hosts: Sequence[Pod]) -> Iterator[Finding]:
    runtime, found = facts.machine.runtime_settings, facts.machine.networks
    if isinstance(runtime, Unknown):
        yield unknown(_NETWORK, f"its plugins were not looked at: {runtime.why}", "look yourself")
        return
    for name, lack in facts.machine.plugins.items():
        callers = [] if isinstance(found, Unknown) else [it for it in found if name in it.plugins]
        why = f"{lack}, and {_by(callers)} calls it"
        is_ours = name == STICKY
        remedy = "run `relay-sidecar node install` again" if is_ours else "put the plugin back"
        finding = Finding(_NETWORK, why, remedy)
        yield from _unless_written(str(runtime.plugin_folders[0]), name, hosts, finding)


def _by(networks: Sequence[Network]) -> str:
    return str(networks[0].path) if networks else "the runtime"


def _unless_written(
    folder: str, name: str, hosts: Sequence[Pod], finding: Finding
) -> Iterator[Finding]:
    """A pod on the host's network may put the file there before others need it."""
    writers = {pod.writes(folder, name): pod for pod in hosts}
    if "yes" in writers:
        return
    if "perhaps" in writers:
        why = f"{finding.why}; whether {writers['perhaps']} puts it back as it starts is not known"
        yield unknown(finding.what, why, finding.remedy)
    else:
        yield finding


def _of_sandbox(facts: Facts) -> Iterator[Finding]:
    runtime, images = facts.machine.runtime_settings, facts.machine.images
    if isinstance(runtime, Unknown) or not runtime.sandbox_image:
        return
    what, image = "all pods", runtime.sandbox_image
    if isinstance(images, Unknown):
        why = f"whether the sandbox image {image} is on the node is not known: {images.why}"
        yield unknown(what, why, "install ctr or crictl, or look yourself")
    elif not has_image(images, {image_name(image)}):
        yield Finding(what, f"the sandbox image {image} is not on the node", "pull it")


def has_image(images: Collection[str], names: Collection[str]) -> bool:
    """`names`: full ones; `images`: as a runtime lists them."""
    return any(name in images for name in names)


# ── names ──


def _of_names(facts: Facts, pods: Sequence[Pod], hosts: Sequence[Pod]) -> Iterator[Finding]:
    settings = facts.machine.kubelet_settings
    if settings is None or not any(pod.uses_cluster_dns for pod in pods):
        return
    if not settings.cluster_dns:
        yield unknown(_NAMES, "kubelet's clusterDNS is not known", "name one in its configuration")
    for address in settings.cluster_dns:
        yield from _of_resolver(facts, address, hosts)


def _of_resolver(facts: Facts, address: str, hosts: Sequence[Pod]) -> Iterator[Finding]:
    start = facts.machine.start
    if start is not None and address in start.addresses:
        if not any(_serves_names(pod) for pod in hosts):
            why = f"clusterDNS {address} is this node's, and no pod on its network serves names"
            yield Finding(_NAMES, why, "apply manifests/overlays/node, and label the node")
        return
    remedy = "set kubelet's clusterDNS to the address of --pod-listen, and restart kubelet"
    if isinstance(facts.names, Unknown):
        why = f"where clusterDNS {address} leads is not known: {facts.names.why}"
        yield unknown(_NAMES, why, remedy)
        return
    service = facts.names.get(address)
    if service is None:
        why = f"clusterDNS {address} is no address that is set on this node, nor of a Service"
        yield Finding(_NAMES, why, remedy)
    elif not service.here:
        why = f"clusterDNS {address} leads to Service {service.service}, of which nothing runs here"
        yield Finding(_NAMES, why, remedy)
    elif service.elsewhere:
        why = (
            f"clusterDNS {address} leads to Service {service.service}, of which {service.elsewhere}"
            f" of {service.here + service.elsewhere} endpoints are on other nodes"
        )
        yield unknown(_NAMES, why, remedy)


def _serves_names(pod: Pod) -> bool:
    return any(
        port.container_port == _DNS_PORT
        for container in pod.spec.containers
        for port in container.ports
    )


# ── components ──


def _of_components(facts: Facts, hosts: Sequence[Pod]) -> Iterator[Finding]:
    """By what the relay has decided about their tokens, and keeps."""
    if not isinstance(facts.relay, Relay):
        return
    relay = facts.relay
    components = [pod for pod in hosts if _is_component(pod)]
    for pod in components:
        name = pod.spec.service_account_name
        rights = relay.rights_of(pod.metadata.uid)
        needs = _NEEDS.get(name, ())
        if not rights:
            why = "the relay knows no right of its token: it goes past the relay, or has not asked"
            yield Finding(str(pod), why, _LEAD)
            continue
        if not relay.is_read_by(pod.metadata.uid):
            yield _of_silence(pod, relay.uptime_seconds)
        for resource in needs:
            plural, _, group = resource.partition(".v1.")
            right = f"{plural}.{group}" if group else plural
            if not {f"list {right}", f"watch {right}"} & rights:
                why = f"no right to list {right} is kept for its token"
                yield Finding(str(pod), why, "restart it while the link is up")
            elif not relay.keeps(resource):
                yield Finding(str(pod), f"{right} are not kept", "restart it while the link is up")
    if not any(_is_proxy(pod) for pod in components):
        yield unknown(
            "Services",
            "no pod of kube-proxy is on this node: whether what makes rules of Services comes back "
            "is not known",
            "see that it asks the relay",
        )


def _of_silence(pod: Pod, uptime: float) -> Finding:
    """Whose watches are at the relay opens them again soon after that has started."""
    if uptime < SILENCE:
        why = f"it has not asked the relay, which started {uptime:.0f} s ago: whether it goes past"
        return unknown(str(pod), f"{why} it is not known", "wait, then ask again")
    return Finding(str(pod), "it asks the relay for nothing: it goes past it", _LEAD)


def _of_kubeconfig(facts: Facts, hosts: Sequence[Pod]) -> Iterator[Finding]:
    """Of pods that mount the folder with it."""
    folder = str(facts.pod_kubeconfig.parent)
    users = [pod for pod in hosts if folder in pod.host_paths]
    if users and facts.pod_kubeconfig_lack:
        yield Finding(
            ", ".join(map(str, users)),
            f"{facts.pod_kubeconfig}: {facts.pod_kubeconfig_lack}",
            "run `relay-sidecar node install` again with the same flags",
        )


def _is_component(pod: Pod) -> bool:
    return is_node_component(f"system:serviceaccount:{pod.account}")


def _is_proxy(pod: Pod) -> bool:
    """Also a network that makes the rules itself."""
    name = pod.spec.service_account_name
    return name in ("kube-proxy", "cilium", "kube-router", "antrea-agent")
