"""Each thing that would fail at a reboot is found with its remedy, and nothing else."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_sidecars.runtime.cli.values import Address
from relay_node.doctor.facts import (
    Certificate,
    Deviation,
    Facts,
    KubeconfigFacts,
    Names,
    Relay,
    Reservation,
)
from relay_node.doctor.finding import Finding
from relay_node.doctor.findings import findings, notes
from relay_node.doctor.machine.kubelet import Kubelet
from relay_node.doctor.machine.machine import Machine, RelayStart
from relay_node.doctor.machine.runtime import Network, Runtime
from relay_node.doctor.machine.service import Run, Service
from relay_node.doctor.node_reader import filesystem_of
from relay_node.doctor.pod_findings import of_pods
from relay_node.doctor.pods import Pod, image_name, images_of, pods_of
from relay_node.doctor.report import as_json, as_text, exit_status
from relay_node.doctor.unknown import Unknown

Json = dict[str, Any]
DAY = 86400.0
NOW = 1_790_000_000.0
IMAGE = "docker.io/library/web:1"
TOKEN: Json = {
    "namespace": "shop",
    "serviceAccount": "seller",
    "podName": "web-0",
    "podUID": "u-1",
    "audiences": ["vault"],
    "expirationSeconds": 3607,
}


SECRETS = ("volume", "projected", "variable", "variables")
CSI_NODE = {"resource": "csinodes.v1.storage.k8s.io", "namespace": "", "name": "edge-1"}
CONFIG_MAPS = ("c", "kube-root-ca.crt", "settings", "colour")


def stream(name: str, **changed: Any) -> Json:
    return {
        "resource": "secrets.v1." if name in SECRETS else "configmaps.v1.",
        "namespace": "shop",
        "fieldSelector": f"metadata.name={name}",
        "objects": 1,
        "resourceVersion": "7",
        **changed,
    }


def status(**changed: Any) -> Json:
    """Of a relay that keeps all that `pod` needs."""
    return {
        "version": "1",
        "uptimeSeconds": 3600.0,
        "lack": None,
        "link": {"isUp": True, "state": "up", "server": "https://api"},
        "journal": {"directory": "/data/journal", "failure": None, "note": None},
        "secrets": {"isKept": True, "failure": None},
        "tokens": [TOKEN],
        "streams": [
            *(stream(name) for name in (*SECRETS, *CONFIG_MAPS)),
            stream("absent", resource="secrets.v1.", objects=0),
            stream("of-nobody", objects=0),
        ],
        "restart": {"keyFailure": None, "callers": [], "objects": [CSI_NODE]},
        **changed,
    }


def pod(
    *, metadata: Json | None = None, spec: Json | None = None, status: Json | None = None
) -> Pod:
    """With a token, and a Secret and a ConfigMap in each way."""
    container = {
        "name": "web",
        "image": "web:1",
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "variable", "key": "k"}}},
            {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "colour", "key": "k"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "variables"}}],
    }
    token = {"audience": "vault", "expirationSeconds": 3607, "path": "token"}
    sources = [
        {"serviceAccountToken": token},
        {"secret": {"name": "projected"}},
        {"secret": {"name": "absent", "optional": True}},
        {"configMap": {"name": "kube-root-ca.crt"}},
    ]
    content = {
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1", **(metadata or {})},
        "spec": {
            "serviceAccountName": "seller",
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume"}},
                {"name": "b", "secret": {"secretName": "absent", "optional": True}},
                {"name": "c", "projected": {"sources": sources}},
                {"name": "d", "emptyDir": {}},
                {"name": "e", "configMap": {"name": "settings"}},
                {"name": "f", "configMap": {"name": "of-nobody", "optional": True}},
            ],
            "containers": [container],
            **(spec or {}),
        },
        "status": {"phase": "Running", "podIPs": [{"ip": "10.9.0.2"}], **(status or {})},
    }
    [found] = pods_of(json.dumps({"items": [content]}).encode())
    return found


def container(**changed: Any) -> Json:
    """A pod's `spec` that needs only an image."""
    own = {"name": "web", "image": "web:1", "imagePullPolicy": "IfNotPresent", **changed}
    return {"volumes": [], "containers": [own]}


def relay(**changed: Any) -> Relay:
    return msgspec.convert(status(**changed), Relay)


def service(name: str, **changed: Any) -> Service:
    good: Json = {"lacks": (), "unproven": (), "run": Run("active", NOW - DAY, False)}
    return Service(name, unit=None, command=None, **good | changed)


def machine(**changed: Any) -> Machine:
    """Of which all is well, and whose runtime lists no images."""
    good: Json = {
        "relay": service("relay-sidecar.service"),
        "kubelet": service("kubelet.service"),
        "runtime": service("containerd.service"),
        "systemd": None,
        "start": RelayStart(
            data_dir=Path("/data/journal"),
            keep_secrets=Path("/k"),
            key_lack="",
            listen=Address("127.0.0.1", 10550),
            addresses=("169.254.20.11",),
            lacks=(),
        ),
        "kubelet_settings": Kubelet(
            kubeconfig=None,
            has_bootstrap=True,
            socket="/run/containerd/containerd.sock",
            cluster_dns=("10.0.0.10",),
            files=(),
            lacks=(),
        ),
        "runtime_settings": Runtime("", Path("/c"), (Path("/b"),), Path("/n"), 1, True),
        "images": Unknown("no ctr"),
        "networks": [Network(Path("/n/1.conflist"), ("bridge",))],
        "plugins": {},
    }
    return Machine(**good | changed)


def without_bootstrap() -> Machine:
    settings = machine().kubelet_settings
    assert settings is not None
    return machine(kubelet_settings=replace(settings, has_bootstrap=False))


RESTART: Json = {"keyFailure": None, "callers": [], "objects": [CSI_NODE]}


def found(facts: Facts) -> list[Finding]:
    """But for what no test here looks at: a sandbox image, and kube-proxy."""
    of_others = ("Services", "the container runtime")
    return [it for it in findings(facts) if it.what not in of_others]


GOOD = Facts(
    now=NOW,
    node="edge-1",
    machine=machine(),
    names={"10.0.0.10": Names(service="kube-system/dns", here=1, elsewhere=0)},
    volumes={},
    volatile={},
    pod_kubeconfig=Path("/data/public/kubeconfig"),
    pod_kubeconfig_lack="",
    relay=relay(),
    pods=[pod()],
    images=frozenset({IMAGE}),
    reservations=[Reservation(["10.9.0.2"], uid="u-1")],
    certificate=Certificate(NOW - 100 * DAY, NOW + 265 * DAY),
    upstream_time=NOW,
    kubeconfig=KubeconfigFacts(Path("/etc/kubelet.conf"), "https://127.0.0.1:10550", True),
    filesystem="ext4",
    outdated=(),
    deviations=(),
)
CSR = "approve its CertificateSigningRequest (`kubectl get csr`)"
BOOTSTRAP = (
    "give kubelet a --bootstrap-kubeconfig with a new token (kubeadm token create) before it "
    "starts again"
)
KUBELET = "restart kubelet while the link is up"


def with_pod(**changed: Any) -> Facts:
    return replace(GOOD, pods=[pod(**changed)])


def with_relay(**changed: Any) -> Facts:
    return replace(GOOD, relay=relay(**changed))


def with_volume(volume: Json) -> Facts:
    return replace(GOOD, pods=[pod(spec={**container(), "volumes": [{"name": "v", **volume}]})])


def with_projected(source: Json) -> Facts:
    return with_volume({"projected": {"sources": [source]}})


def with_dns(here: int, elsewhere: int) -> Facts:
    names = Names(service="kube-system/dns", here=here, elsewhere=elsewhere)
    return replace(GOOD, names={"10.0.0.10": names})


def with_kubelet(**changed: Any) -> Facts:
    return replace(GOOD, machine=machine(kubelet=service("kubelet.service", **changed)))


FAILING: dict[str, tuple[Facts, str]] = {
    "the relay does not answer": (
        replace(GOOD, relay=Unknown("no answer at http://127.0.0.1:10551")),
        "the relay: no answer at http://127.0.0.1:10551; `relay-sidecar node status` says why; "
        "start it, then ask again",
    ),
    "the relay is not ready": (
        with_relay(lack="starting"),
        "the relay: it is not ready: starting; wait, then ask again",
    ),
    "the API server refuses the certificate": (
        with_relay(link={"isUp": True, "state": "unauthorized"}),
        "the node's certificate: the API server refuses it (401); " + BOOTSTRAP,
    ),
    "the journal is in memory": (
        with_relay(journal={"directory": None, "failure": None}),
        "what the relay keeps: it is in memory only; start the relay with --data-dir on a disk",
    ),
    "the journal is on tmpfs": (
        replace(GOOD, filesystem="tmpfs"),
        "what the relay keeps: /data/journal is on tmpfs, which a reboot empties; put --data-dir "
        "on a disk",
    ),
    "the journal fails": (
        with_relay(
            journal={"directory": "/data/journal", "failure": "/d: No space left on device"}
        ),
        "what the relay keeps: /d: No space left on device; free or repair that disk",
    ),
    "the key is missing": (
        with_relay(secrets={"isKept": False, "failure": "--keep-secrets /k: No such file"}),
        "Secrets and tokens: --keep-secrets /k: No such file; then restart the "
        "relay, and kubelet while the link is up",
    ),
    "the key is another": (
        with_relay(secrets={"isKept": True, "failure": "--keep-secrets /k holds another key"}),
        "Secrets and tokens: --keep-secrets /k holds another key; then restart the "
        "relay, and kubelet while the link is up",
    ),
    "no Secrets are kept": (
        with_relay(
            secrets={"isKept": False, "failure": None},
            tokens=[],
            streams=[stream(name) for name in (*CONFIG_MAPS, "of-nobody")],
        ),
        "Secrets and tokens: none is kept, and 1 pods need some; install with --keep-secrets "
        "KEYFILE",
    ),
    "kubelet goes another way": (
        replace(GOOD, kubeconfig=KubeconfigFacts(Path("/etc/kubelet.conf"), "https://api", False)),
        "kubelet: /etc/kubelet.conf leads to https://api, not to the relay; run `relay-sidecar "
        "node install` again",
    ),
    "the certificate has ended": (
        replace(GOOD, certificate=Certificate(NOW - DAY, NOW - 1)),
        "the node's certificate: it has ended, and kubelet does not start with it; " + BOOTSTRAP,
    ),
    "the certificate ends soon": (
        replace(GOOD, certificate=Certificate(NOW - 9 * DAY, NOW + 0.9 * DAY)),
        "the node's certificate: it ends in 21.6 h, and kubelet should have renewed it by now; "
        "restart kubelet while the link is up, and " + CSR,
    ),
    "the clock is ahead": (
        replace(GOOD, upstream_time=NOW - 31),
        "the clock: it is 31 s ahead of the API server's, by which certificates count; set it, and "
        "see that NTP and the clock's battery work",
    ),
    "the clock is behind": (
        replace(GOOD, upstream_time=NOW + 3600),
        "the clock: it is 3600 s behind the API server's, by which certificates count; set it, and "
        "see that NTP and the clock's battery work",
    ),
    "the clock is before the certificate, and nobody tells the time": (
        replace(
            GOOD,
            upstream_time=None,
            certificate=Certificate(NOW + 36 * 3600, NOW + 265 * DAY),
        ),
        "the clock: it is 1.5 days before the node's certificate begins; set it, and see that NTP "
        "and the clock's battery work",
    ),
    "the pods are unknown": (
        replace(GOOD, pods=Unknown("503: upstream is out of reach")),
        f"the pods of this node: 503: upstream is out of reach; {KUBELET}",
    ),
    "no token is kept": (
        with_relay(tokens=[]),
        f"pod shop/web-0: no token of ServiceAccount seller for vault is kept for it; {KUBELET}",
    ),
    "a Secret was never listed": (
        with_pod(spec={"volumes": [{"secret": {"secretName": "other"}}]}),
        f"pod shop/web-0: Secret other is not kept; {KUBELET}",
    ),
    "a Secret does not exist": (
        with_relay(streams=[*status()["streams"][1:], stream("volume", objects=0)]),
        "pod shop/web-0: Secret volume does not exist; create it",
    ),
    "a ConfigMap was never listed": (
        with_pod(spec={"volumes": [{"configMap": {"name": "other"}}]}),
        f"pod shop/web-0: ConfigMap other is not kept; {KUBELET}",
    ),
    "an image is always pulled": (
        with_pod(spec=container(imagePullPolicy="Always")),
        "pod shop/web-0, container web: imagePullPolicy Always: kubelet asks the registry for "
        "web:1 each time; set IfNotPresent, or have the registry on this side of the link",
    ),
    "an image is missing": (
        with_pod(spec=container(image="web:2")),
        "pod shop/web-0, container web: image web:2 is not on the node; pull it",
    ),
    "an image of an init container is missing": (
        with_pod(spec={**container(), "initContainers": [{"name": "init", "image": "db"}]}),
        "pod shop/web-0, container init: image db is not on the node; pull it",
    ),
    "the network keeps no addresses": (
        replace(GOOD, reservations=None),
        "addresses of pods: their network is not set up by sticky-ipam: 1 pods may come back with "
        "other addresses, and services be dead until the link is back; see what `relay-sidecar "
        "node install --dry-run` notes about the network",
    ),
    "the reservations are unknown": (
        replace(GOOD, reservations=Unknown("sticky-ipam list: no such file")),
        "addresses of pods: sticky-ipam list: no such file; run it by hand",
    ),
    "an address has no reservation": (
        replace(GOOD, reservations=[]),
        "pod shop/web-0: no reservation keeps its address 10.9.0.2; delete the pod, so that it is "
        "made anew",
    ),
}


@pytest.mark.parametrize(("facts", "line"), FAILING.values(), ids=list(FAILING))
def test_what_would_fail_is_said_with_its_remedy(facts: Facts, line: str) -> None:
    assert list(map(str, found(facts))) == [f"fails: {line}"]


WELL: dict[str, Facts] = {
    "all is there": GOOD,
    "the certificate is still to be renewed": replace(
        GOOD, certificate=Certificate(NOW - 8.9 * DAY, NOW + 1.1 * DAY)
    ),
    "the clock is a little off": replace(GOOD, upstream_time=NOW - 30),
    "nobody tells the time": replace(GOOD, upstream_time=None),
    "the runtime lists more images than the Node": replace(
        GOOD,
        images=frozenset(),
        machine=machine(images=frozenset({"docker.io/library/web:1"})),
    ),
    "the certificate has ended, and kubelet starts with it": replace(
        GOOD,
        certificate=Certificate(NOW - 10 * DAY, NOW - DAY),
        machine=without_bootstrap(),
    ),
    "the link is down": with_relay(link={"isUp": False, "state": "down"}),
    "no pod needs a Secret or token": replace(
        with_relay(secrets={"isKept": False, "failure": None}),
        pods=[pod(spec=container())],
    ),
    "all pods have the node's network": replace(
        GOOD, reservations=None, pods=[pod(spec={"hostNetwork": True})]
    ),
    "the reservation is by name": replace(
        GOOD, reservations=[Reservation(["10.9.0.2"], namespace="shop", name="web-0")]
    ),
    "the runtime knows the image by another name": replace(
        with_pod(
            spec=container(image="corp/web"),
            status={"containerStatuses": [{"name": "web", "imageID": "quay.io/corp/web@sha256:1"}]},
        ),
        images=frozenset({"quay.io/corp/web@sha256:1"}),
    ),
}


@pytest.mark.parametrize("facts", WELL.values(), ids=list(WELL))
def test_what_would_work_is_not_found(facts: Facts) -> None:
    assert found(facts) == []


HOST = {"hostNetwork": True, "serviceAccountName": "kube-proxy", **container()}
PROXY = pod(metadata={"namespace": "kube-system", "name": "kube-proxy-1", "uid": "u-9"}, spec=HOST)
SERVICES = stream("", resource="services.v1.", namespace="", fieldSelector="")
SLICES = SERVICES | {"resource": "endpointslices.v1.discovery.k8s.io"}


def with_proxy(
    *rights: str,
    streams: Sequence[Json] = (SERVICES, SLICES),
    has_read: bool = True,
    uptime: float = 3600.0,
) -> Facts:
    caller = {
        "namespace": "kube-system",
        "serviceAccount": "kube-proxy",
        "podUID": "u-9",
        "rights": rights,
        "hasRead": has_read,
    }
    restart = {"keyFailure": None, "callers": [caller], "objects": [CSI_NODE]}
    relay = with_relay(restart=restart, streams=streams, uptimeSeconds=uptime)
    return replace(relay, pods=[PROXY])


def claiming(*objects: Json, volume: str = "pv-1") -> Facts:
    spec = {**container(), "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
    restart = {"keyFailure": None, "callers": [], "objects": [CSI_NODE, *objects]}
    facts = replace(with_relay(restart=restart), pods=[pod(spec=spec)])
    return replace(facts, volumes={("shop", "data"): volume})


CLAIM = {"resource": "persistentvolumeclaims.v1.", "namespace": "shop", "name": "data"}
VOLUME = {"resource": "persistentvolumes.v1.", "namespace": "", "name": "pv-1"}
RIGHTS = ("list services", "watch endpointslices.discovery.k8s.io")


@pytest.mark.parametrize(
    ("facts", "verdict", "why"),
    [
        (with_proxy(*RIGHTS), "", ""),
        (with_proxy(*RIGHTS, has_read=False), "fails", "it goes past it"),
        (with_proxy(*RIGHTS, has_read=False, uptime=9.0), "unknown", "which started 9 s ago"),
        (with_proxy(), "fails", "the relay knows no right of its token"),
        (with_proxy("get services", RIGHTS[1]), "fails", "no right to list services is kept"),
        (with_proxy(RIGHTS[0]), "fails", "no right to list endpointslices.discovery.k8s.io"),
        (with_proxy(*RIGHTS, streams=[SLICES]), "fails", "services are not kept"),
        (with_relay(restart=RESTART | {"objects": []}), "fails", "CSINode edge-1 is not kept"),
        (with_relay(restart=RESTART | {"keyFailure": "gone"}), "fails", "gone"),
        (claiming(CLAIM, VOLUME), "", ""),
        (claiming(VOLUME), "fails", "PersistentVolumeClaim data is not kept"),
        (claiming(CLAIM), "fails", "PersistentVolume pv-1 is not kept"),
        (claiming(CLAIM, volume=""), "", ""),
        (with_projected({"podCertificate": {}}), "fails", "a certificate that only the cloud"),
        (with_projected({"clusterTrustBundle": {}}), "fails", "ClusterTrustBundles are not kept"),
        (with_volume({"nfs": {"server": "nas"}}), "unknown", "the server of volume v"),
        (with_volume({"csi": {"driver": "d"}}), "fails", "CSIDrivers are not kept"),
        (with_dns(1, 0), "", ""),
        (with_dns(0, 2), "fails", "of which nothing runs here"),
        (with_dns(1, 2), "unknown", "2 of 3 endpoints are on other nodes"),
        (
            replace(GOOD, volatile={"the sealing key": Path("/run/k")}),
            "fails",
            "/run/k is on tmpfs",
        ),
        (replace(GOOD, names=Unknown("403")), "unknown", "leads is not known: 403"),
        (replace(GOOD, machine=machine(systemd=Unknown("no"))), "unknown", "is not known: no"),
        (with_kubelet(run=Run("auto-restart", None, False)), "fails", "does not stay up now"),
        (with_kubelet(run=Run("inactive", None, False)), "unknown", "it does not run now"),
        (with_kubelet(unproven=(Path("/u"),)), "unknown", "/u changed after it was started"),
        (with_kubelet(lacks=("it is masked",)), "fails", "it is masked"),
        (replace(GOOD, images=None), "unknown", "kubelet reports 50"),
    ],
)
def test_the_machine_and_what_the_relay_keeps_are_looked_at(
    facts: Facts, verdict: str, why: str
) -> None:
    told = found(facts)
    assert (told[0].verdict if told else "") == verdict, told
    assert any(why in str(it) for it in told) or not verdict, told


@pytest.mark.parametrize(("left", "verdict"), [(DAY, "fails"), (-1, "unknown")])
def test_pods_that_an_ended_certificate_may_not_see_are_unknown(left: float, verdict: str) -> None:
    certificate = Certificate(NOW - DAY, NOW + left)
    told = [*of_pods(replace(GOOD, pods=Unknown("503"), certificate=certificate))]
    assert [it.verdict for it in told] == [verdict]


def test_only_where_all_was_seen_nothing_would_fail() -> None:
    unseen = findings(with_dns(1, 2))
    failing = findings(with_dns(0, 2))
    assert [exit_status(it) for it in ([], unseen, failing)] == [0, 3, 1]
    assert as_text([], ["n"]) == "note: n\nnothing would fail"
    assert as_text(unseen, []).endswith("but not all could be seen")
    assert "nothing" not in as_text(failing, []).splitlines()[-1]
    told = [json.loads(as_json(it, ["n"])) for it in ([], unseen, failing)]
    assert [it["wouldFail"] for it in told] == [False, None, True]
    assert {it["verdict"] for it in told[1]["findings"]} == {"unknown"}
    assert told[0]["notes"] == ["n"]


@pytest.mark.parametrize(
    ("mount", "script", "name", "word"),
    [
        ({}, ["cp", "/x", "/host/bin/flannel"], "flannel", "yes"),
        ({}, ["cp", "/x", "/host/bin/flannel"], "bridge", ""),
        ({}, ["sh", "install"], "bridge", "perhaps"),
        ({"readOnly": True}, ["cp", "/x", "/host/bin/flannel"], "flannel", ""),
    ],
)
def test_a_pod_may_put_back_what_a_node_lacks(
    mount: Json, script: list[str], name: str, word: str
) -> None:
    mounts = [{"name": "v", "mountPath": "/host", **mount}]
    spec = container(command=script, volumeMounts=mounts)
    spec["volumes"] = [{"name": "v", "hostPath": {"path": "/opt/cni"}}]
    assert pod(spec=spec).writes("/opt/cni/bin", name) == word


NEEDY = {
    "spec": {**container(imagePullPolicy="Always"), "volumes": [{"secret": {"secretName": "x"}}]}
}


@pytest.mark.parametrize(
    "changed",
    [
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}},
    ],
)
def test_a_pod_that_kubelet_does_not_start_needs_nothing(changed: Json) -> None:
    facts = replace(GOOD, reservations=[])
    assert len(found(replace(facts, pods=[pod(**NEEDY)]))) == 3
    assert found(replace(facts, pods=[pod(**NEEDY, **changed)])) == []


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": "other"},
        {"serviceAccount": "default"},
        {"podUID": "u-2"},
        {"audiences": []},
        {"expirationSeconds": 600},
    ],
)
def test_a_token_for_anything_else_is_none(other: Json) -> None:
    [finding] = found(with_relay(tokens=[TOKEN | other]))
    assert "no token of ServiceAccount seller for vault" in str(finding)


def test_a_token_without_an_audience_is_that_of_the_default() -> None:
    source = {"serviceAccountToken": {"path": "token"}}
    spec = {**container(), "volumes": [{"projected": {"sources": [source]}}]}
    [finding] = found(with_pod(spec=spec))
    assert "ServiceAccount seller is kept" in str(finding)
    kept = TOKEN | {"audiences": [], "expirationSeconds": 3600}
    assert found(replace(with_relay(tokens=[kept]), pods=[pod(spec=spec)])) == []


@pytest.mark.parametrize(
    "other",
    [
        {"namespace": ""},
        {"fieldSelector": ""},
        {"resource": "configmaps.v1."},
        {"resourceVersion": None},
    ],
)
@pytest.mark.parametrize("name", SECRETS)
def test_only_a_list_of_a_secret_by_name_keeps_it(name: str, other: Json) -> None:
    others = [it for it in status()["streams"] if name != it["fieldSelector"].partition("=")[2]]
    [finding] = found(with_relay(streams=[*others, stream(name, **other)]))
    assert f"Secret {name} is not kept" in str(finding)


@pytest.mark.parametrize("name", CONFIG_MAPS)
def test_a_config_map_is_kept_by_name_or_with_others(name: str) -> None:
    others = [it for it in status()["streams"] if name != it["fieldSelector"].partition("=")[2]]
    [finding] = found(with_relay(streams=others))
    assert f"ConfigMap {name} is not kept" in str(finding)
    for namespace in ("shop", ""):
        all_of_them = stream(name, namespace=namespace, fieldSelector="")
        assert not found(with_relay(streams=[*others, all_of_them]))
        unlisted = {**all_of_them, "resourceVersion": None}
        assert len(found(with_relay(streams=[*others, unlisted]))) == 1


@pytest.mark.parametrize(
    "other",
    [
        Reservation(["10.9.0.3"], uid="u-1"),
        Reservation(["10.9.0.2"], uid="u-2", namespace="shop", name="web-0"),
        Reservation(["10.9.0.2", "fd00::2"], uid="u-1"),
        Reservation(["10.9.0.2"], namespace="shop", name="web-1"),
    ],
)
def test_a_reservation_of_another_pod_or_address_keeps_nothing(other: Reservation) -> None:
    [finding] = found(replace(GOOD, reservations=[other]))
    assert "no reservation keeps its address 10.9.0.2" in str(finding)


def test_a_static_pod_needs_its_image() -> None:
    static = {"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}}
    [finding] = found(replace(GOOD, reservations=[], pods=[pod(**NEEDY, **static)]))
    assert "imagePullPolicy Always" in str(finding)


def test_what_is_not_of_now_or_was_not_looked_at_is_noted() -> None:
    assert notes(GOOD) == []
    facts = with_relay(link={"isUp": False, "state": "down"})
    changed = [Deviation(Path("/etc/f"), Path("/data/b/f")), Deviation(Path("/etc/g"), None)]
    text = " ".join(
        notes(
            replace(
                facts,
                upstream_time=None,
                outdated=[Path("/run/flannel/subnet.env")],
                deviations=changed,
                certificate=Certificate(NOW - 9.5 * DAY, NOW + 0.5 * DAY),
                machine=without_bootstrap(),
            )
        )
    )
    assert "those that the relay last knew" in text
    assert "the clock was not compared" in text
    assert "takes some 15 s longer; run `relay-sidecar node snapshot`" in text
    assert "/etc/f is not as it was installed: copy /data/b/f there" in text
    assert "/etc/g is not as it was installed: delete it" in text
    assert "certificate ends in 12.0 h" in text


# ── what is read ──


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("web", "docker.io/library/web:latest"),
        ("web:1", "docker.io/library/web:1"),
        ("corp/web", "docker.io/corp/web:latest"),
        ("docker.io/library/web:1", "docker.io/library/web:1"),
        ("localhost/web", "localhost/web:latest"),
        ("reg:5000/web", "reg:5000/web:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("web:1@sha256:ab", "docker.io/library/web@sha256:ab"),
        ("docker-pullable://web@sha256:ab", "docker.io/library/web@sha256:ab"),
    ],
)
def test_an_image_has_one_name(name: str, full: str) -> None:
    assert image_name(name) == full


def test_images_count_only_where_all_are_listed() -> None:
    def node(count: int) -> bytes:
        images = [{"names": [f"web@sha256:{n}", f"web:{n}"], "sizeBytes": n} for n in range(count)]
        return json.dumps({"status": {"images": images}}).encode()

    found = images_of(node(49))
    assert found is not None
    assert {"docker.io/library/web:48", "docker.io/library/web@sha256:0"} <= found
    assert images_of(node(50)) is None
    # Nobody has reported any.
    assert images_of(node(0)) is None


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /run rw,nosuid shared:5 - tmpfs tmpfs rw
31 22 254:1 / /var/lib rw shared:6 - xfs /dev/vdb rw
32 31 0:27 / /var/lib/with\\040space rw - tmpfs tmpfs rw
33 31 0:28 / /var/lib/relay-sidecar rw - btrfs /dev/vdc rw
34 33 0:29 / /var/lib/relay-sidecar rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data", "ext4"),
        ("/run/data", "tmpfs"),
        ("/running", "ext4"),
        ("/var/lib/kubelet", "xfs"),
        ("/var/lib/with space/data", "tmpfs"),
        ("/var/lib/relay-sidecar/journal", "tmpfs"),
    ],
)
def test_the_filesystem_of_a_folder_is_that_of_the_last_mount_above(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind
