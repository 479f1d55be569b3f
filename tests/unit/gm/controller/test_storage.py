"""How workers get at what they read and write."""

from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from gm.core.kind import DataSource, HotUpdate, Mounted, Value
from gm.core.workers.storage import hot_update_file, storage
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import NAMESPACE, federated, joint, secret
from tests.unit.gm.controller.test_staged_rule import begun, ready

JOB = {"kind": "FederatedLearningJob", "metadata": {"name": "J1", "namespace": NAMESPACE}}
KEYS = {
    ObjectKey("secret", NAMESPACE, "keys"): secret("keys", {"s3-endpoint": "minio:9000"}),
    ObjectKey("secret", NAMESPACE, "plain"): secret(
        "plain", {"s3-endpoint": "minio:9000", "s3-usehttps": "0"}
    ),
}


def environment(given: Any) -> dict[str, Any]:
    return {it["name"]: it.get("value", it.get("valueFrom")) for it in given.environment}


@pytest.mark.parametrize(
    ("url", "is_downloaded", "value"),
    [
        ("/srv/m/a.pb", True, "/home/data/srv/m/a.pb"),
        ("/srv/m/a.pb", False, "/home/data/srv/m/a.pb"),
        ("/a.pb", True, "/home/data/a.pb"),
        ("/srv/m/dir/", True, "/home/data/srv/m/dir"),
        ("s3://bucket/m/a.pb", True, "/downloads/bucket/m/a.pb"),
        ("s3://bucket/m/a.pb", False, "s3://bucket/m/a.pb"),
        ("https://host:8/m/a.pb", True, "/downloads/host:8/m/a.pb"),
        ("http://host/a.pb", False, "http://host/a.pb"),
    ],
)
def test_where_a_worker_finds_a_source(url: str, is_downloaded: bool, value: str) -> None:
    given = storage([Mounted("MODEL_URL", (DataSource(url),), is_downloaded)], JOB, {})
    assert environment(given)["MODEL_URL"] == value
    assert ("DATA_PATH_PREFIX" in environment(given)) is url.startswith("/")
    assert (given.initializer is not None) is (value.startswith("/downloads"))


def test_a_path_is_mounted_by_its_directory() -> None:
    given = storage([Mounted("MODEL_URL", (DataSource("/srv/m/a.pb"),))], JOB, {})
    (volume,), (mount,) = given.volumes, given.mounts
    assert volume["hostPath"] == {"path": "/srv/m", "type": "Directory"}
    assert mount == {"name": volume["name"], "mountPath": "/home/data/srv/m"}


def test_a_directory_is_mounted_itself_where_it_is_meant() -> None:
    given = storage([Mounted("OUT", (DataSource("/srv/out/"),), is_directory=True)], JOB, {})
    assert [it["hostPath"]["path"] for it in given.volumes] == ["/srv/out"]
    assert [it["mountPath"] for it in given.mounts] == ["/home/data/srv/out"]
    assert environment(given)["OUT"] == "/home/data/srv/out"


def test_two_sources_in_one_directory_are_mounted_once() -> None:
    """Sedna mounts the directory twice, and the API server refuses the pod for ever."""
    sources = (DataSource("/srv/m/a.pb"), DataSource("/srv/m/b.pb"))
    settings = [Mounted("MODEL_URLS", sources), Mounted("DATA", (DataSource("/srv/m/c"),))]
    given = storage(settings, JOB, {})
    assert len(given.mounts) == len(given.volumes) == 1
    assert environment(given)["MODEL_URLS"] == "/home/data/srv/m/a.pb;/home/data/srv/m/b.pb"


def test_two_directories_whose_names_look_alike_have_two_volumes() -> None:
    settings = [Mounted("A", (DataSource("/a/b/x"),)), Mounted("B", (DataSource("/a-b/x"),))]
    names = {it["name"] for it in storage(settings, JOB, {}).volumes}
    assert len(names) == 2
    assert all(len(it) <= 63 for it in names)


def test_what_is_downloaded_is_named_in_pairs_with_the_keys_by_reference() -> None:
    settings = [
        Mounted("A", (DataSource("s3://bucket/m/a.pb", "keys"),), is_downloaded=True),
        Mounted("B", (DataSource("https://host/b"),), is_downloaded=True),
    ]
    given = storage(settings, JOB, KEYS)
    assert given.initializer is not None
    assert given.initializer["args"] == [
        "s3://bucket/m/a.pb",
        "/downloads/bucket/m/",
        "https://host/b",
        "/downloads/host/",
    ]
    told = {it["name"]: it for it in given.initializer["env"]}
    assert told["S3_ENDPOINT_URL"]["value"] == "https://minio:9000"
    reference = {"secretKeyRef": {"name": "keys", "key": "ACCESS_KEY_ID"}}
    assert told["ACCESS_KEY_ID"] == {"name": "ACCESS_KEY_ID", "valueFrom": reference}
    assert "ACCESS_KEY_ID" not in environment(given)


def test_a_worker_that_writes_to_s3_itself_has_the_keys() -> None:
    given = storage([Mounted("OUT", (DataSource("s3://bucket/out", "plain"),))], JOB, KEYS)
    assert given.initializer is None
    assert environment(given)["S3_ENDPOINT_URL"] == "http://minio:9000"
    assert "SECRET_ACCESS_KEY" in environment(given)


def test_an_index_is_downloaded_with_what_it_names() -> None:
    source = DataSource("/srv/out/dataIndex.txt", "keys", is_indirect=True)
    given = storage([Mounted("ORIGINAL_DATASET_URL", (source,), is_downloaded=True)], JOB, KEYS)
    assert given.initializer is not None
    pair = ["/home/data/srv/out/dataIndex.txt", "@/downloads/srv/out/"]
    assert given.initializer["args"] == pair
    assert environment(given)["ORIGINAL_DATASET_URL"] == "/downloads/srv/out/dataIndex.txt"
    paths = [it["mountPath"] for it in given.initializer["volumeMounts"]]
    assert paths == ["/downloads", "/home/data/srv/out"]
    assert [it["mountPath"] for it in given.mounts] == ["/downloads"]


def test_a_hot_update_shares_a_directory_with_lc() -> None:
    given = storage([Value("A", "b"), HotUpdate(5)], JOB, {})
    directory = "/var/lib/sedna/model-hot-update/shop/federatedlearningjob/j1"
    assert hot_update_file(JOB) == f"{directory}/model_config.json"
    (volume,) = given.volumes
    assert volume["hostPath"] == {"path": directory, "type": "DirectoryOrCreate"}
    assert environment(given) == {
        "A": "b",
        "MODEL_HOT_UPDATE": "true",
        "MODEL_POLL_PERIOD_SECONDS": "5",
        "MODEL_HOT_UPDATE_CONFIG": "/model-hot-update/model_config.json",
    }


def test_two_models_of_an_incremental_job_in_one_directory_make_a_valid_pod() -> None:
    cluster = begun()
    body = ready("Train", 1)
    body["input"]["models"] = [{"url": "/srv/m/base.pb"}, {"url": "/srv/m/prod.pb"}]
    body["input"]["dataURL"] = "/srv/m/data.txt"
    cluster.report(body)
    cluster.settle()
    mounts = cluster.child("Pod", "il1-train-1-0")["spec"]["containers"][0]["volumeMounts"]
    paths = [it["mountPath"] for it in mounts]
    assert len(paths) == len(set(paths))


def test_the_users_own_mounts_and_volumes_stay_and_its_environment_too() -> None:
    subject = joint()
    spec = subject["spec"]["edgeWorker"]["template"]["spec"]
    spec["volumes"] = [{"name": "own", "emptyDir": {}}]
    own = {"name": "own", "mountPath": "/home/data/srv/m/"}
    container = {"volumeMounts": [own], "env": [{"name": "A", "value": "1"}]}
    spec["containers"][0] |= container
    spec["containers"].append({"name": "helper", "image": "i"})
    cluster = Cluster(subject)
    cluster.settle()
    made = cluster.child("Deployment", "ji1-deployment-edge")["spec"]["template"]["spec"]
    assert made["containers"][0]["volumeMounts"] == [own]
    assert made["volumes"][0] == {"name": "own", "emptyDir": {}}
    assert {"name": "A", "value": "1"} in made["containers"][0]["env"]
    assert len(made["containers"][1]["volumeMounts"]) == 1
    assert subject["spec"]["edgeWorker"]["template"]["spec"]["containers"][1] == {
        "name": "helper",
        "image": "i",
    }


def test_our_environment_wins_over_the_users_of_the_same_name() -> None:
    subject = joint()
    container = subject["spec"]["edgeWorker"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "BIG_MODEL_PORT", "value": "1"}]
    cluster = Cluster(subject)
    cluster.settle()
    made = cluster.child("Deployment", "ji1-deployment-edge")["spec"]["template"]["spec"]
    ports = [it["value"] for it in made["containers"][0]["env"] if it["name"] == "BIG_MODEL_PORT"]
    assert ports == ["5000"]


def test_a_worker_that_would_need_two_secrets_is_warned_of() -> None:
    cluster = Cluster(federated())
    for key, referred in cluster.references.items():
        if key.kind in ("dataset", "model") and referred is not None:
            name = f"keys-of-{key.name}"
            referred["spec"] |= {"url": f"s3://b/{key.name}", "credentialName": name}
    for name in ("base", "d1", "d2"):
        key = ObjectKey("secret", NAMESPACE, f"keys-of-{name}")
        cluster.references[key] = secret(key.name, {"s3-endpoint": "minio"})
    cluster.settle()
    assert cluster.events.count("OneSecretOnly") == 2
    assert cluster.status["phase"] == "Running"


def test_secrets_are_referred_to_and_their_content_is_in_no_manifest() -> None:
    cluster = Cluster(joint())
    found = secret("keys", {"s3-endpoint": "minio:9000"}) | {"data": {"ACCESS_KEY_ID": "c2VjcmV0"}}
    cluster.references[ObjectKey("secret", NAMESPACE, "keys")] = found
    for key, referred in cluster.references.items():
        if key.kind == "model" and referred is not None:
            referred["spec"] |= {"url": f"s3://b/{key.name}", "credentialName": "keys"}
    cluster.settle()
    assert "c2VjcmV0" not in str(cluster.children)
    init: Json = cluster.child("Deployment", "ji1-deployment-edge")["spec"]["template"]["spec"]
    assert len(init["initContainers"]) == 1
