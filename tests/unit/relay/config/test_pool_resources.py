"""What `--pool-resource` takes."""

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.config.preload import (
    DEFAULT,
    MAX_RESOURCES,
    chosen,
    parse_pool_resource,
    parse_preload,
)


def parsed(*texts: str) -> tuple[str, ...]:
    return tuple(it.plural for it in chosen(list(map(parse_pool_resource, texts))))


def test_by_default_services_and_endpoint_slices_are_shared() -> None:
    assert chosen([]) == tuple(map(parse_preload, DEFAULT))
    assert parsed() == ("services", "endpointslices")


def test_none_shares_nothing() -> None:
    assert parsed("none") == ()


def test_any_resource_that_is_the_same_for_all_members_may_be_shared() -> None:
    assert parsed("widgets.v1.example.com?labelSelector=a=b", "services") == ("widgets", "services")


@pytest.mark.parametrize(
    "text",
    [
        "secrets",
        "secrets.v1.",
        "configmaps?namespace=default",
        "serviceaccounts",
        "nodes",
        "pods?fieldSelector=spec.nodeName=n1",
        "leases.coordination.k8s.io",
        "leases.v1.coordination.k8s.io",
        "leasecandidates.coordination.k8s.io",
        "poolmembers.pool.edge-sidecars.io",
        "tokenreviews.authentication.k8s.io",
        "subjectaccessreviews.authorization.k8s.io",
        "certificatesigningrequests.certificates.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
    ],
)
def test_what_is_secret_or_says_who_is_who_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"never taken from a neighbour: name "):
        parsed(text.removesuffix("."))


def test_none_beside_others_and_one_twice_and_too_many_are_refused() -> None:
    with pytest.raises(BadInput, match=r"none beside others: drop one"):
        parsed("none", "services")
    with pytest.raises(BadInput, match=r"services twice: name it once"):
        parsed("services", "services?namespace=a")
    many = [f"r{it}.example.com" for it in range(MAX_RESOURCES + 1)]
    with pytest.raises(BadInput, match=r"17 times: at most 16"):
        parsed(*many)
