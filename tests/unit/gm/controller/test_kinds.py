"""What workers of each kind are told: the names that Sedna's library reads (prior art, 2 and 3)."""

from typing import Any

import pytest

from edge_sidecars.sedna_api.core.api_object import ObjectKey
from edge_sidecars.sedna_api.core.kinds import KINDS as RESOURCES
from gm.core.kinds.registry import KINDS
from tests.unit.gm.controller.cluster import Cluster
from tests.unit.gm.controller.samples import (
    EVERY_JOB,
    NAMESPACE,
    feature,
    federated,
    hot,
    incremental,
    joint,
    reid,
    search,
    secret,
    tracking,
    video,
)

SERVICE = {"NAMESPACE": "shop", "DATA_PATH_PREFIX": "/home/data"}
LC = {"LC_SERVER": "http://localhost:9100"}
HEM = {"HEM_NAME": "IBT", "HEM_PARAMETERS": "[]"}


def job(name: str) -> dict[str, str]:
    return SERVICE | {"JOB_NAME": name}


FEDERATED = job("fl1") | {
    "PARTICIPANTS_COUNT": "2",
    "TRANSMITTER": "ws",
    "MODEL_URL": "/home/data/srv/m/base.pb",
}
PLAIN = {"NAMESPACE": "shop"}

CASES: list[tuple[Any, str, str, dict[str, str]]] = [
    (
        joint,
        "Deployment",
        "ji1-deployment-cloud",
        SERVICE
        | {
            "SERVICE_NAME": "ji1",
            "BIG_MODEL_BIND_PORT": "5000",
            "MODEL_URL": "/home/data/srv/m/big.pb",
        },
    ),
    (
        joint,
        "Deployment",
        "ji1-deployment-edge",
        SERVICE
        | LC
        | HEM
        | {
            "SERVICE_NAME": "ji1",
            "BIG_MODEL_IP": "ji1-cloud.shop",
            "BIG_MODEL_PORT": "5000",
            "HEM_PARAMETERS": '[{"key":"t","value":"0.9"}]',
            "MODEL_URL": "/home/data/srv/m/small.pb",
        },
    ),
    (federated, "Pod", "fl1-aggregation-0", FEDERATED | {"AGG_BIND_PORT": "7363"}),
    (
        federated,
        "Pod",
        "fl1-train-1",
        FEDERATED
        | LC
        | {
            "AGG_IP": "fl1-aggregation.shop",
            "AGG_PORT": "7363",
            "MODEL_NAME": "base",
            "DATASET_NAME": "d2",
            "TRAIN_DATASET_URL": "/home/data/srv/d2/t.txt",
        },
    ),
    (
        incremental,
        "Pod",
        "il1-inference-0-0",
        job("il1") | LC | HEM | {"MODEL_URL": "/home/data/srv/m/prod.pb"},
    ),
    (
        hot,
        "Pod",
        "il1-inference-0-0",
        job("il1")
        | LC
        | HEM
        | {
            "MODEL_URL": "/home/data/srv/m/prod.pb",
            "MODEL_HOT_UPDATE": "true",
            "MODEL_POLL_PERIOD_SECONDS": "5",
            "MODEL_HOT_UPDATE_CONFIG": "/model-hot-update/model_config.json",
        },
    ),
    (
        feature,
        "Deployment",
        "fe1-deployment-fe",
        SERVICE | LC | {"SERVICE_NAME": "fe1", "MODEL_URL": "/home/data/srv/m/base.pb"},
    ),
    (
        video,
        "Pod",
        "va1-videoanalytics-0",
        job("va1") | LC | {"MODEL_URL": "/home/data/srv/m/base.pb", "MODEL_NAME": "base"},
    ),
    (reid, "Pod", "re1-reid-0", PLAIN | LC | {"JOB_NAME": "re1"}),
    (search, "Deployment", "os1-deployment-userworker", PLAIN | {"SERVICE_NAME": "os1"}),
    (search, "Deployment", "os1-deployment-reidworker", PLAIN | {"SERVICE_NAME": "os1"}),
    (
        search,
        "Pod",
        "os1-trackingworker-1",
        PLAIN
        | {
            "SERVICE_NAME": "os1",
            "USERWORKER_URL": "os1-userworker.shop:9379",
            "EDGEMESH_URL": "os1-reidworker.shop:9378",
        },
    ),
    (
        tracking,
        "Pod",
        "ot1-trackingworker-0",
        PLAIN | {"SERVICE_NAME": "ot1", "EDGEMESH_URL": "ot1-reidworker.shop:9378"},
    ),
]


@pytest.mark.parametrize(
    ("made", "kind", "name", "expected"), CASES, ids=lambda it: it if isinstance(it, str) else None
)
def test_the_environment_of_each_worker(
    made: Any, kind: str, name: str, expected: dict[str, str]
) -> None:
    cluster = Cluster(made())
    cluster.settle()
    assert cluster.environment(kind, name) == expected | {"WORKER_NAME": name}


@pytest.mark.parametrize(
    ("made", "type_"), [(video, "Pod"), (reid, "Pod"), (feature, "Deployment")]
)
def test_kafka_is_told_where_it_is_supported(made: Any, type_: str) -> None:
    cluster = Cluster(made(kafkaSupport=True))
    cluster.settle()
    (name,) = cluster.names(type_)
    assert cluster.environment(type_, name)["KAFKA_ENABLED"] == "true"


def test_a_federated_job_over_s3_and_from_a_pretrained_model() -> None:
    s3 = {"s3": {"aggDataPath": "s3://bucket/agg", "credentialName": "keys"}}
    cluster = Cluster(federated(transmitter=s3, pretrainedModel={"name": "big"}))
    cluster.settle()
    environment = cluster.environment("Pod", "fl1-aggregation-0")
    assert environment["TRANSMITTER"] == "s3"
    assert environment["AGG_DATA_PATH"] == "s3://bucket/agg"
    assert environment["PRETRAINED_MODEL_URL"] == "/home/data/srv/m/big.pb"
    assert "ACCESS_KEY_ID" in environment


@pytest.mark.parametrize("scheme", ["s3", "http", "https"])
@pytest.mark.parametrize("name", ["fl1-aggregation-0", "fl1-train-1"])
def test_a_federated_jobs_models_and_data_are_downloaded(scheme: str, name: str) -> None:
    cluster = Cluster(federated(pretrainedModel={"name": "big"}))
    for key, referred in cluster.references.items():
        if key.kind in ("dataset", "model") and referred is not None:
            referred["spec"] |= {"url": f"{scheme}://host/{key.name}.x", "credentialName": "keys"}
    cluster.references[ObjectKey("secret", NAMESPACE, "keys")] = secret(
        "keys", {"s3-endpoint": "minio"}
    )
    cluster.settle()
    expected = {
        "MODEL_URL": "/downloads/host/base.x",
        "PRETRAINED_MODEL_URL": "/downloads/host/big.x",
    }
    if "train" in name:
        expected["TRAIN_DATASET_URL"] = "/downloads/host/d2.x"
    environment = cluster.environment("Pod", name)
    assert {key: environment[key] for key in expected} == expected
    (initializer,) = cluster.child("Pod", name)["spec"]["initContainers"]
    wanted = {f"{scheme}://host/{it.rpartition('/')[2]}" for it in expected.values()}
    assert set(initializer["args"][::2]) == wanted
    assert set(initializer["args"][1::2]) == {"/downloads/host/"}
    # The keys are the init container's, which alone asks the store.
    assert "ACCESS_KEY_ID" not in environment
    keys = {it["name"] for it in initializer["env"]}
    assert ("ACCESS_KEY_ID" in keys) is (scheme == "s3")


@pytest.mark.parametrize(
    ("made", "name", "host_network", "restart"),
    [
        (federated, "fl1-aggregation-0", False, "OnFailure"),
        (federated, "fl1-train-0", True, "OnFailure"),
        (incremental, "il1-inference-0-0", True, None),
        (video, "va1-videoanalytics-0", False, "Always"),
        (reid, "re1-reid-0", False, "Always"),
        (search, "os1-trackingworker-0", False, None),
    ],
)
def test_network_and_restart_policy_of_pods(
    made: Any, name: str, host_network: bool, restart: str | None
) -> None:
    cluster = Cluster(made())
    cluster.settle()
    spec = cluster.child("Pod", name)["spec"]
    assert spec.get("hostNetwork", False) is host_network
    assert spec.get("restartPolicy") == restart


@pytest.mark.parametrize("made", EVERY_JOB)
def test_children_have_sednas_labels_our_mark_and_their_controller(made: Any) -> None:
    cluster = Cluster(made())
    cluster.settle()
    subject = cluster.subject["metadata"]
    prefix = f"{cluster.kind.resource.singular}.sedna.io/"
    for child in cluster.children.values():
        labels = child["metadata"]["labels"]
        assert labels[f"{prefix}name"] == subject["name"]
        assert labels[f"{prefix}uid"] == subject["uid"]
        assert labels[f"{prefix}worker-type"]
        assert labels["app.kubernetes.io/managed-by"] == "sedna-gm"
        assert child["metadata"]["annotations"]["sedna.io/spec-hash"]
        (owner,) = child["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (subject["uid"], True)


def test_services_and_deployments_select_the_pods_of_their_worker() -> None:
    cluster = Cluster(joint())
    cluster.settle()
    for name in cluster.names("Deployment"):
        spec = cluster.child("Deployment", name)["spec"]
        assert (
            spec["selector"]["matchLabels"].items()
            <= spec["template"]["metadata"]["labels"].items()
        )
    deployment = cluster.child("Deployment", "ji1-deployment-cloud")
    service = cluster.child("Service", "ji1-cloud")
    pods = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= pods.items()
    assert service["spec"]["ports"][0] == {
        "name": "tcp-0",
        "protocol": "TCP",
        "port": 5000,
        "targetPort": 5000,
    }
    assert pods["app.sedna.io"] == "ji1-Cloud-svc"


def test_there_is_a_row_for_each_kind_of_sednas() -> None:
    assert set(KINDS) == {it.singular for it in RESOURCES}
