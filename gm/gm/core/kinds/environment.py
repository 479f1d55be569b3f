"""What workers of several kinds get alike."""

import json

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.capability import PREFIX, capability
from gm.core.kind import LC_SERVER, Site, Value
from gm.core.tree import flag, items, text


def of_job(site: Site) -> tuple[Value, ...]:
    """Who a worker is, for a kind that ends in Job."""
    return (*_of_worker(site), Value("JOB_NAME", site.job))


def of_service(site: Site) -> tuple[Value, ...]:
    """Who a worker is, for a kind that ends in Service."""
    return (*_of_worker(site), Value("SERVICE_NAME", site.job))


def lc_server(site: Site) -> Value:
    """With the worker's capability in its path: Sedna's library appends its own path to it."""
    base = site.settings.lc_server
    if not site.worker_key:
        return Value(LC_SERVER, base)
    given = capability(
        site.worker_key,
        uid=text(site.object, "metadata", "uid"),
        worker=site.name,
        node=text(site.part, "template", "spec", "nodeName"),
    )
    return Value(LC_SERVER, f"{base.rstrip('/')}{PREFIX}{given}")


def hard_example_mining(part: Json) -> tuple[Value, ...]:
    """Of what has a `hardExampleMining`."""
    parameters = items(part, "hardExampleMining", "parameters")
    return (
        Value("HEM_NAME", text(part, "hardExampleMining", "name")),
        Value("HEM_PARAMETERS", json.dumps(parameters, separators=(",", ":"))),
    )


def kafka(site: Site) -> tuple[Value, ...]:
    return (Value("KAFKA_ENABLED", "true"),) if flag(site.object, "spec", "kafkaSupport") else ()


def _of_worker(site: Site) -> tuple[Value, ...]:
    return (Value("NAMESPACE", site.namespace), Value("WORKER_NAME", site.name))
