"""A journal that begins anew while kubelet, kube-proxy and flanneld run is whole again by itself.

These asked for most of what they need at their own start, long before: the relay asks for it now,
and what their tokens may read it has reviewed, so that a reboot while cut finds all of it.
"""

import base64
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from relay_sidecar.core.node_needs import VolumeNeeds, attachment_of
from tests.integration.relay.node.node_place import NODE, NodePlace, allow_nodes, write_key
from tools.harness.controlplane.access.accounts import Rule, expect
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Caller, Query, Reply
from tools.harness.relay_objects import Contents, Json

NAME = NODE.removeprefix("system:node:")
DRIVER, HANDLE = "csi.example.com", "volume-1"
STORAGE = "/apis/storage.k8s.io/v1"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
READS = ["get", "list", "watch"]
# As their own manifests have them.
SHARED = ["services", "endpointslices", "nodes"]
PROXY: list[Rule] = [
    {"apiGroups": ["", "discovery.k8s.io"], "resources": SHARED, "verbs": READS},
]
FLANNEL: list[Rule] = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": READS},
]
HEADLESS = {"labelSelector": "!service.kubernetes.io/headless"}
MINE = {"fieldSelector": f"spec.nodeName={NAME}", "resourceVersion": "0"}
# Seconds.
WHOLE_AFTER = 30.0
# For what follows: an object that another one names, reviews that were begun.
SAVED = 3.0


class Scene:
    """What is in the cloud, and who reads it on the node."""

    def __init__(self, place: NodePlace, contents: Contents) -> None:
        self.place, self.contents = place, contents
        plane = place.plane
        self.kubelet = place.caller(place.pair)
        self.pod = self._pod()
        self.proxy = self._component("kube-system", "kube-proxy", PROXY)
        self.flannel = self._component("kube-flannel", "flannel", FLANNEL)
        admin = plane.admin
        admin.post("/api/v1/nodes", {"metadata": {"name": NAME}})
        csi_node = {"metadata": {"name": NAME}, "spec": {"drivers": []}}
        admin.post(f"{STORAGE}/csinodes", csi_node)

    def _component(self, namespace: str, name: str, rules: Sequence[Rule]) -> Caller:
        plane = self.place.plane
        plane.admin.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        found = plane.service_account_dir(namespace, name, [], cluster_rules=rules)
        return self.place.caller(token=(found.path / "token").read_text())

    def _pod(self) -> Json:
        contents, admin = self.contents, self.place.plane.admin
        space = contents.namespace
        volume = f"pv-{space}"
        driver = {"attachRequired": True, "tokenRequests": [{"audience": "storage"}]}
        admin.post(f"{STORAGE}/csidrivers", {"metadata": {"name": DRIVER}, "spec": driver})
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        }
        contents.create("persistentvolumeclaims", "data", spec=claim)
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {
                "driver": DRIVER,
                "volumeHandle": f"{HANDLE}-{space}",
                "nodePublishSecretRef": {"name": "mount", "namespace": space},
            },
        }
        expect(
            admin.post("/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": spec})
        )
        self.volume = f"/api/v1/persistentvolumes/{volume}"
        attached = attachment_of(VolumeNeeds(driver=DRIVER, handle=f"{HANDLE}-{space}"), NAME)
        self.attachment = f"{STORAGE}/volumeattachments/{attached.key[1]}"
        attachment = {
            "attacher": DRIVER,
            "nodeName": NAME,
            "source": {"persistentVolumeName": volume},
        }
        path, _, name = self.attachment.rpartition("/")
        expect(admin.post(path, {"metadata": {"name": name}, "spec": attachment}))
        for kind in ("secrets", "configmaps"):
            data = base64.b64encode(b"kept").decode()
            contents.create(kind, "mutable", data={"a": data})
            contents.create(kind, "fixed", data={"a": data}, immutable=True)
        contents.create("secrets", "mount", data={})
        contents.create("secrets", "registry", data={})
        volumes = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "settings", "configMap": {"name": "fixed"}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t", "audience": "vault"}},
                        {"secret": {"name": "fixed"}},
                    ]
                },
            },
        ]
        container = {
            "name": "main",
            "image": "example.com/main:1",
            "envFrom": [{"secretRef": {"name": "mutable"}}],
            "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "mutable", "key": "a"}}}
            ],
        }
        pod = {
            "nodeName": NAME,
            "containers": [container],
            "volumes": volumes,
            "imagePullSecrets": [{"name": "registry"}],
        }
        return contents.create("pods", "web-0", spec=pod)

    def questions(self) -> Iterator[tuple[str, Reply]]:
        """What is asked at a reboot."""
        path, kubelet = self.contents.path, self.kubelet
        for caller, target, query in (
            (kubelet, "/api/v1/pods", MINE),
            (kubelet, "/api/v1/services", {"resourceVersion": "0"}),
            (kubelet, f"{STORAGE}/csidrivers", {"resourceVersion": "0"}),
            (kubelet, "/apis/node.k8s.io/v1/runtimeclasses", {"resourceVersion": "0"}),
            (kubelet, f"/api/v1/nodes/{NAME}", {}),
            (kubelet, f"{STORAGE}/csinodes/{NAME}", {}),
            (kubelet, path("persistentvolumeclaims", "data"), {}),
            (kubelet, self.volume, {}),
            (kubelet, self.attachment, {}),
            *((kubelet, path(kind), by_name(name)) for kind, name in NAMED),
            (self.proxy, "/api/v1/services", HEADLESS),
            (self.proxy, SLICES, HEADLESS),
            (self.proxy, f"/api/v1/nodes/{NAME}", {}),
            (self.flannel, "/api/v1/nodes", {"limit": "500", "resourceVersion": "0"}),
            (self.flannel, f"/api/v1/nodes/{NAME}", {}),
            (self.flannel, path("pods", "web-0"), {}),
        ):
            yield f"{target}?{query}", caller.get(target, query)
        for audience in ("vault", "storage"):
            yield audience, self.token(audience)

    def token(self, audience: str) -> Reply:
        meta = self.pod["metadata"]
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"]}
        spec: dict[str, object] = {"audiences": [audience], "boundObjectRef": bound}
        if audience == "vault":
            spec["expirationSeconds"] = 3600
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"{self.contents.path('serviceaccounts', 'default')}/token"
        return self.kubelet.ask(path, method="POST", body=body)

    def watches(self) -> list[tuple[Caller, str, Query]]:
        """Those that stay open, and are opened anew when the relay starts again."""
        return [
            (self.kubelet, "/api/v1/pods", MINE),
            (self.proxy, "/api/v1/services", HEADLESS),
            (self.proxy, SLICES, HEADLESS),
            (self.flannel, "/api/v1/nodes", {"resourceVersion": "0"}),
        ]


NAMED = [
    ("secrets", "fixed"),
    ("secrets", "mutable"),
    ("secrets", "mount"),
    ("secrets", "registry"),
    ("configmaps", "fixed"),
    ("configmaps", "mutable"),
]


def by_name(name: str) -> dict[str, str]:
    return {"fieldSelector": f"metadata.name={name}", "resourceVersion": "0"}


def lacking(scene: Scene) -> list[str]:
    found = []
    for what, reply in scene.questions():
        is_list = what.startswith("/") and "fieldSelector': 'metadata" in what
        if reply.status not in (200, 201) or (is_list and len(reply.names) != 1):
            found.append(f"{what}: {reply.status} {reply.body[:300]!r}")
    return found


@pytest.fixture
def scene(control_plane: ControlPlane, contents: Contents, tmp_path: Path) -> Iterator[Scene]:
    allow_nodes(control_plane)
    key = write_key(tmp_path / "node.key")
    with NodePlace(control_plane, tmp_path, flags=[f"--keep-secrets={key}"]) as place:
        yield Scene(place, contents)


def restart(scene: Scene) -> None:
    scene.place.relay.kill()
    scene.place.relay.start()


@pytest.mark.long
@pytest.mark.timeout(150)
def test_a_journal_that_begins_anew_is_whole_by_itself(scene: Scene) -> None:
    relay = scene.place.relay
    wait_for(lambda: not lacking(scene), timeout=10, what="answers online")
    relay.kill()
    for found in relay.data_dir.iterdir():
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    relay.start()
    relay.wait_link(up=True)
    with ExitStack() as stack:
        for caller, path, query in scene.watches():
            stack.enter_context(caller.watch(path, query))
        wait_for(lambda: is_whole(scene), timeout=WHOLE_AFTER, what="a whole journal", interval=1)
        time.sleep(SAVED)
    scene.place.cut()
    restart(scene)
    assert "\n".join(lacking(scene)) == ""
    tokens = {scene.token("vault").body for _ in range(2)}
    assert len(tokens) == 1


def is_whole(scene: Scene) -> bool:
    """By what the relay says of itself: a question would teach it the answer."""
    status = scene.place.relay.status()
    listed = [it for it in status["streams"] if it["resourceVersion"] is not None]
    named = {it["fieldSelector"] for it in listed if it["namespace"] == scene.contents.namespace}
    wanted = {f"metadata.name={name}" for _, name in NAMED}
    # In two forms, for two audiences and, of the API server's own admission, none.
    return len(status["tokens"]) >= 4 and wanted <= named


def test_what_a_pod_names_is_not_forgotten_though_nobody_watches_it(
    control_plane: ControlPlane, contents: Contents, tmp_path: Path
) -> None:
    """Kubelet ends the watch of an immutable object once it has it."""
    allow_nodes(control_plane)
    for name in ("named", "other"):
        contents.create("configmaps", name, data={"a": "b"}, immutable=True)
    volume = {"name": "settings", "configMap": {"name": "named"}}
    container = {"name": "main", "image": "example.com/main:1"}
    spec = {"nodeName": NAME, "containers": [container], "volumes": [volume]}
    contents.create("pods", "web-0", spec=spec)
    path = contents.path("configmaps")
    with NodePlace(control_plane, tmp_path, flags=["--retain=12s", "--idle-timeout=1s"]) as place:
        kubelet = place.caller(place.pair)
        for name in ("named", "other"):
            with kubelet.watch(path, {"fieldSelector": f"metadata.name={name}"}) as watch:
                watch.wait_told(("ADDED", name))

        def kept() -> set[str]:
            streams = place.relay.status()["streams"]
            return {it["fieldSelector"] for it in streams if it["namespace"] == contents.namespace}

        wait_for(lambda: "metadata.name=other" not in kept(), timeout=40, what="a sweep")
        time.sleep(SAVED)
        assert "metadata.name=named" in kept()
        place.cut()
        assert kubelet.get(path, by_name("named")).names == ["named"]
