"""What is a value in a chart. What Helm makes of it: tests/integration/manifests/test_charts.py."""

import json
from typing import Any

import yaml

from tools.release.chart import Source, chart, has_values

Json = dict[str, Any]


def deployment(**container: object) -> Json:
    main = {"name": "pool-member", "image": "edge-sidecars/gm:1.2.3", **container}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "pool-a", "namespace": "sedna"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [main]}}},
    }


def files(*objects: Json, **source: Any) -> dict[str, str]:
    return chart(Source("pool", "What it is.", objects, **source))


def values(**container: object) -> Json:
    found: Json = yaml.safe_load(files(deployment(**container))["values.yaml"])
    return found


def test_only_what_runs_our_images_has_values() -> None:
    assert has_values([deployment()])
    assert has_values([{"metadata": {"annotations": {"image": "edge-sidecars/lc:1"}}}])
    assert not has_values([deployment(image="example.com/gm:1.2.3"), {"kind": "ConfigMap"}])


def test_variables_that_are_texts_are_values_and_others_stay() -> None:
    other = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    env = [{"name": "B", "value": "2"}, other, {"name": "A", "value": "x"}]
    assert values(env=env)["poolA"]["poolMember"]["env"] == {"B": "2", "A": "x"}
    template = files(deployment(env=env))["templates/deployment-pool-a.yaml"]
    assert "fieldPath: metadata.name" in template
    assert '"fixed" (list "POD") "path" "poolA.poolMember.env"' in template
    assert "value:" not in template


def test_images_replicas_and_resources_are_values() -> None:
    limits = {"limits": {"memory": "1Gi"}}
    found = values(resources=limits)
    assert found["image"] == {"registry": "edge-sidecars", "tag": "1.2.3"}
    assert found["poolA"]["replicas"] == 2
    assert found["poolA"]["poolMember"] == {"env": {}, "resources": limits}


def test_a_registry_of_the_release_is_the_charts_own() -> None:
    made = files(deployment(), registry="registry.example.com/edge")
    assert yaml.safe_load(made["values.yaml"])["image"]["registry"] == "registry.example.com/edge"


def test_the_schema_knows_the_values_and_no_others() -> None:
    schema = json.loads(files(deployment(env=[{"name": "A", "value": "x"}]))["values.schema.json"])
    assert set(schema["properties"]) == {"image", "poolA", "global"}
    assert schema["additionalProperties"] is False
    container = schema["properties"]["poolA"]["properties"]["poolMember"]
    assert container["additionalProperties"] is False
    assert container["properties"]["env"]["additionalProperties"]["type"] == [
        *("string", "number", "boolean", "null"),
    ]


def test_the_namespace_is_the_releases_and_is_made_by_helm() -> None:
    namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sedna"}}
    made = files(namespace, deployment(), namespace="sedna")
    assert not any("namespace" in name for name in made)
    assert (
        "namespace: {{ $.Release.Namespace | quote }}" in (made["templates/deployment-pool-a.yaml"])
    )
    fixed = files(namespace, deployment(), namespace="sedna", fixed_because="policies name it")
    assert "policies name it" in fixed["templates/namespace.yaml"]


def test_a_chart_says_the_oldest_kubernetes_that_it_works_with() -> None:
    head = yaml.safe_load(files(deployment())["Chart.yaml"])
    assert head["kubeVersion"] == ">=1.32.0-0"
    assert head["description"] == "What it is."
