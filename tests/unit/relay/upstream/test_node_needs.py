"""What kubelet needs for a pod, read off the pod as the API has it."""

import json
from typing import Any

import pytest

from relay_sidecar.core.node_needs import (
    CLAIMS,
    CONFIG_MAPS,
    SECRETS,
    VOLUMES,
    ObjectName,
    TokenWish,
    VolumeNeeds,
    attachment_of,
    driver_facts,
    pod_needs,
    volume_needs,
    volume_of,
)

MAIN = {"name": "main"}


def pod(spec: dict[str, Any], phase: str = "Running") -> bytes:
    meta = {"namespace": "shop", "name": "web-0", "uid": "u"}
    return json.dumps({"metadata": meta, "spec": spec, "status": {"phase": phase}}).encode()


def with_volume(**source: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", **source}]}


def with_container(kind: str = "containers", **fields: Any) -> dict[str, Any]:
    return {kind: [{**MAIN, **fields}]}


def env(**source: Any) -> list[dict[str, Any]]:
    return [{"name": "E", "valueFrom": source}]


@pytest.mark.parametrize(
    ("spec", "resource", "name"),
    [
        (with_volume(configMap={"name": "a"}), CONFIG_MAPS, "a"),
        (with_volume(secret={"secretName": "a"}), SECRETS, "a"),
        (with_volume(projected={"sources": [{"configMap": {"name": "a"}}]}), CONFIG_MAPS, "a"),
        (with_volume(projected={"sources": [{"secret": {"name": "a"}}]}), SECRETS, "a"),
        (with_volume(persistentVolumeClaim={"claimName": "a"}), CLAIMS, "a"),
        (with_volume(ephemeral={"volumeClaimTemplate": {}}), CLAIMS, "web-0-v"),
        (with_volume(csi={"driver": "d", "nodePublishSecretRef": {"name": "a"}}), SECRETS, "a"),
        (with_volume(azureFile={"secretName": "a"}), SECRETS, "a"),
        (with_volume(cephfs={"secretRef": {"name": "a"}}), SECRETS, "a"),
        (with_container(envFrom=[{"configMapRef": {"name": "a"}}]), CONFIG_MAPS, "a"),
        (with_container(envFrom=[{"secretRef": {"name": "a"}}]), SECRETS, "a"),
        (with_container(env=env(configMapKeyRef={"name": "a", "key": "k"})), CONFIG_MAPS, "a"),
        (with_container("initContainers", env=env(secretKeyRef={"name": "a"})), SECRETS, "a"),
        (
            with_container("ephemeralContainers", envFrom=[{"secretRef": {"name": "a"}}]),
            SECRETS,
            "a",
        ),
        ({"imagePullSecrets": [{"name": "a"}]}, SECRETS, "a"),
    ],
)
def test_each_way_of_a_pod_to_name_an_object_is_known(
    spec: dict[str, Any], resource: Any, name: str
) -> None:
    found = pod_needs(pod(spec))
    assert found is not None
    assert found.objects == {ObjectName(resource, ("shop", name))}


def test_a_token_is_asked_for_as_kubelet_does() -> None:
    token = {"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}}
    spec = {"serviceAccountName": "app", **with_volume(projected={"sources": [token]})}
    found = pod_needs(pod(spec))
    assert found is not None
    assert found.tokens == {TokenWish("vault", 600)}
    key = found.token_key(TokenWish("vault", 600), "application/json")
    assert (key.namespace, key.service_account, key.pod_uid) == ("shop", "app", "u")
    assert (key.audiences, key.expiration_seconds) == (("vault",), 600)
    assert found.token_key(TokenWish("", None), "application/json").audiences == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_needs_nothing(phase: str) -> None:
    assert pod_needs(pod(with_volume(configMap={"name": "a"}), phase)) is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"metadata":[],"spec":7}', b"\xff"])
def test_what_is_no_pod_needs_nothing(raw: bytes) -> None:
    assert pod_needs(raw) is None
    assert volume_of(raw) is None
    assert volume_needs(raw) == VolumeNeeds()


def test_from_a_claim_to_its_volume_and_the_attachment() -> None:
    assert volume_of(b'{"spec":{"volumeName":"pv"}}') == ObjectName(VOLUMES, ("", "pv"))
    secret = {"name": "s", "namespace": "kube-system"}
    csi = {
        "driver": "csi.example.com",
        "volumeHandle": "h",
        "nodeStageSecretRef": secret,
        "controllerExpandSecretRef": {**secret, "name": "not-the-nodes"},
    }
    found = volume_needs(json.dumps({"spec": {"csi": csi}}).encode())
    assert found.secrets == {ObjectName(SECRETS, ("kube-system", "s"))}
    # sha256sum of "hcsi.example.comn1": csi_attacher.go, getAttachmentName.
    assert attachment_of(found, "n1").key == ("", f"csi-{DIGEST}")


DIGEST = "b443ff371db9b71827ff6dcb6a58f7474195968c4317513778b950b8560576b6"


def test_a_driver_says_which_tokens_it_wants_and_whether_it_attaches() -> None:
    raw = b'{"spec":{"attachRequired":false,"tokenRequests":[{"audience":"a"}]}}'
    assert driver_facts(raw).tokens == {TokenWish("a", None)}
    assert not driver_facts(raw).attaches
    assert driver_facts(b'{"spec":{}}').attaches
