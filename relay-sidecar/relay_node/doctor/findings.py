"""What would fail at a reboot now of the node as a whole: the relay, kubelet, files, the clock.

Pure: facts in, findings out. What is not known is no finding, but for what nothing can be said
without (the pods, the relay's own state).
"""

from collections.abc import Iterator
from typing import Final

from relay_node.doctor.facts import Certificate, Deviation, Facts, Relay
from relay_node.doctor.finding import Finding, unknown
from relay_node.doctor.machine_findings import of_machine
from relay_node.doctor.network_findings import of_networks
from relay_node.doctor.pod_findings import of_pods
from relay_node.doctor.unknown import Unknown

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
_RESTART_BOTH: Final = "then restart the relay, and kubelet while the link is up"


def findings(facts: Facts) -> list[Finding]:
    """The node as a whole first, then pod by pod."""
    return [
        *_of_relay(facts),
        *of_machine(facts),
        *_of_kubelet(facts),
        *_of_clock(facts),
        *of_networks(facts),
        *of_pods(facts),
        *_of_images(facts),
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
    found += [
        f"{path} is gone with a reboot, and its copy is missing or old: the network of pods takes "
        "some 15 s longer; run `relay-sidecar node snapshot`, and see that "
        "relay-sidecar-snapshot.path is enabled"
        for path in facts.outdated
    ]
    found += [_of_deviation(deviation) for deviation in facts.deviations]
    found += _of_renewal(facts)
    return found


def _of_deviation(it: Deviation) -> str:
    """Whether a reboot minds is seen by what the file does."""
    before = f"copy {it.backup} there" if it.backup else "delete it"
    return (
        f"{it.path} is not as it was installed: {before}, then run `relay-sidecar node install` "
        "again with the same flags"
    )


def _of_renewal(facts: Facts) -> Iterator[str]:
    """A kubelet without --bootstrap-kubeconfig starts also with a certificate that has ended."""
    it = facts.certificate
    if isinstance(it, Unknown) or _has_bootstrap(facts) is not False:
        return
    left = it.not_after - facts.now
    if left <= 0:
        yield f"the node's certificate has ended: after the heal {_NEW_CERTIFICATE}"
    elif left <= RENEWED_BEFORE * (it.not_after - it.not_before):
        yield f"the node's certificate ends in {left / 3600:.1f} h: {_RENEW}"


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
    if it.other is not None:
        yield unknown(
            "kubelet",
            f"it starts with --kubeconfig {it.other}, and {it.path} was looked at",
            f"ask again with --kubeconfig {it.other}",
        )
    if isinstance(facts.certificate, Unknown):
        yield Finding("the node's certificate", facts.certificate.why, _NEW_CERTIFICATE)
    else:
        yield from _of_certificate(facts, facts.certificate)


def _has_bootstrap(facts: Facts) -> bool | None:
    settings = facts.machine.kubelet_settings
    return None if settings is None else settings.has_bootstrap


def _of_certificate(facts: Facts, certificate: Certificate) -> Iterator[Finding]:
    """Also one that ends soon: until the heal it is not renewed."""
    has_bootstrap = _has_bootstrap(facts)
    if has_bootstrap is False:
        return
    left = certificate.not_after - facts.now
    if left <= 0:
        why = "it has ended, and kubelet does not start with it"
        remedy = _NEW_CERTIFICATE
    elif left <= RENEWED_BEFORE * (certificate.not_after - certificate.not_before):
        why = f"it ends in {left / 3600:.1f} h, and kubelet should have renewed it by now"
        remedy = _RENEW
    else:
        return
    if has_bootstrap is None:
        why = f"{why} where it has --bootstrap-kubeconfig, which is not known"
        yield unknown("the node's certificate", why, remedy)
    else:
        yield Finding("the node's certificate", why, remedy)


def _of_images(facts: Facts) -> Iterator[Finding]:
    has_pods = not isinstance(facts.pods, Unknown) and bool(facts.pods)
    if isinstance(facts.machine.images, Unknown) and facts.images is None and has_pods:
        yield unknown(
            "images of pods",
            "the Node does not list all of its images (kubelet reports 50): a missing one would "
            f"not be seen; {facts.machine.images.why}",
            "install ctr, or look yourself",
        )


def _of_clock(facts: Facts) -> Iterator[Finding]:
    """Without the API server's time a clock is known to be behind where it is at a time before the
    node's certificate was issued. TLS to the API server fails then, since its certificate is taken
    for one that does not hold yet."""
    if facts.upstream_time is not None:
        offset = facts.now - facts.upstream_time
        if abs(offset) > MAX_CLOCK_OFFSET:
            side = "ahead of" if offset > 0 else "behind"
            why = f"it is {abs(offset):.0f} s {side} the API server's, by which certificates count"
            yield Finding("the clock", why, _SET_CLOCK)
    elif not isinstance(facts.certificate, Unknown) and facts.now < facts.certificate.not_before:
        days = (facts.certificate.not_before - facts.now) / 86400
        why = f"it is {days:.1f} days before the node's certificate begins"
        yield Finding("the clock", why, _SET_CLOCK)
