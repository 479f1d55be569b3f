"""Each thing that would fail at a reboot is found with its remedy, and nothing else."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay_sidecar.node.doctor.facts import (
    Certificate,
    Deviation,
    Facts,
    Kubeconfig,
    Relay,
    Reservation,
    Unknown,
)
from relay_sidecar.node.doctor.findings import findings, notes
from relay_sidecar.node.doctor.node_reader import filesystem_of
from relay_sidecar.node.doctor.pods import Pod, image_name, images_of, pods_of

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
        "lack": None,
        "link": {"isUp": True, "state": "up", "server": "https://api"},
        "journal": {"directory": "/data/journal", "failure": None, "note": None},
        "secrets": {"isKept": True, "failure": None},
        "tokens": [TOKEN],
        "streams": [stream(name) for name in (*SECRETS, *CONFIG_MAPS)],
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
        {"secret": {"name": "of-nobody", "optional": True}},
        {"configMap": {"name": "kube-root-ca.crt"}},
    ]
    content = {
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1", **(metadata or {})},
        "spec": {
            "serviceAccountName": "seller",
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume"}},
                {"name": "b", "secret": {"secretName": "of-nobody", "optional": True}},
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


GOOD = Facts(
    now=NOW,
    relay=relay(),
    pods=[pod()],
    images=frozenset({IMAGE}),
    reservations=[Reservation(["10.9.0.2"], uid="u-1")],
    certificate=Certificate(NOW - 100 * DAY, NOW + 265 * DAY),
    upstream_time=NOW,
    kubeconfig=Kubeconfig(Path("/etc/kubelet.conf"), "https://127.0.0.1:10550", True),
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
        with_relay(journal={"directory": "/d", "failure": "/d: No space left on device"}),
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
            streams=[stream(name) for name in CONFIG_MAPS],
        ),
        "Secrets and tokens: none is kept, and 1 pods need some; install with --keep-secrets "
        "KEYFILE",
    ),
    "kubelet goes another way": (
        replace(GOOD, kubeconfig=Kubeconfig(Path("/etc/kubelet.conf"), "https://api", False)),
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
    "the snapshot is old": (
        replace(GOOD, outdated=[Path("/run/flannel/subnet.env")]),
        "the network of pods: /run/flannel/subnet.env is gone with a reboot, and its copy is "
        "missing or old; run `relay-sidecar node snapshot`, and see that "
        "relay-sidecar-snapshot.path is enabled",
    ),
    "a file was changed": (
        replace(GOOD, deviations=[Deviation(Path("/etc/f"), Path("/data/node/backup/f"))]),
        "the installation: /etc/f is not as it was installed; copy /data/node/backup/f there, "
        "then run `relay-sidecar node install` again with the same flags",
    ),
    "a file that was new was changed": (
        replace(GOOD, deviations=[Deviation(Path("/etc/f"), None)]),
        "the installation: /etc/f is not as it was installed; delete it, then run `relay-sidecar "
        "node install` again with the same flags",
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
    assert list(map(str, findings(facts))) == [f"fails: {line}"]


WELL: dict[str, Facts] = {
    "all is there": GOOD,
    "the certificate is still to be renewed": replace(
        GOOD, certificate=Certificate(NOW - 8.9 * DAY, NOW + 1.1 * DAY)
    ),
    "the clock is a little off": replace(GOOD, upstream_time=NOW - 30),
    "nobody tells the time": replace(GOOD, upstream_time=None),
    "nobody lists all images": replace(GOOD, images=None, pods=[pod(spec=container(image="x"))]),
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
    assert findings(facts) == []


NEEDY = {
    "spec": {**container(imagePullPolicy="Always"), "volumes": [{"secret": {"secretName": "x"}}]}
}


@pytest.mark.parametrize(
    "changed",
    [
        {"status": {"phase": "Succeeded"}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"annotations": {"kubernetes.io/config.mirror": "1"}}},
        {"metadata": {"deletionTimestamp": "2026-11-23T00:00:00Z"}},
    ],
)
def test_a_pod_that_kubelet_does_not_start_needs_nothing(changed: Json) -> None:
    facts = replace(GOOD, reservations=[])
    assert len(findings(replace(facts, pods=[pod(**NEEDY)]))) == 3
    assert findings(replace(facts, pods=[pod(**NEEDY, **changed)])) == []


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
    [finding] = findings(with_relay(tokens=[TOKEN | other]))
    assert "no token of ServiceAccount seller for vault" in str(finding)


def test_a_token_without_an_audience_is_that_of_the_default() -> None:
    source = {"serviceAccountToken": {"path": "token"}}
    spec = {**container(), "volumes": [{"projected": {"sources": [source]}}]}
    [finding] = findings(with_pod(spec=spec))
    assert "ServiceAccount seller is kept" in str(finding)
    kept = TOKEN | {"audiences": [], "expirationSeconds": 3600}
    assert findings(replace(with_relay(tokens=[kept]), pods=[pod(spec=spec)])) == []


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
    [finding] = findings(with_relay(streams=[*others, stream(name, **other)]))
    assert f"Secret {name} is not kept" in str(finding)


@pytest.mark.parametrize("name", CONFIG_MAPS)
def test_a_config_map_is_kept_by_name_or_with_others(name: str) -> None:
    others = [it for it in status()["streams"] if name != it["fieldSelector"].partition("=")[2]]
    [finding] = findings(with_relay(streams=others))
    assert f"ConfigMap {name} is not kept" in str(finding)
    for namespace in ("shop", ""):
        all_of_them = stream(name, namespace=namespace, fieldSelector="")
        assert not findings(with_relay(streams=[*others, all_of_them]))
        unlisted = {**all_of_them, "resourceVersion": None}
        assert len(findings(with_relay(streams=[*others, unlisted]))) == 1


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
    [finding] = findings(replace(GOOD, reservations=[other]))
    assert "no reservation keeps its address 10.9.0.2" in str(finding)


def test_what_is_not_of_now_or_was_not_looked_at_is_noted() -> None:
    assert notes(GOOD) == []
    facts = with_relay(link={"isUp": False, "state": "down"})
    text = " ".join(notes(replace(facts, upstream_time=None, images=None)))
    assert "those that the relay last knew" in text
    assert "the clock was not compared" in text
    assert "a missing one would not be seen" in text


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
