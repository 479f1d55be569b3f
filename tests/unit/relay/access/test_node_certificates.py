"""Which client certificate a node's relay takes for its node's."""

from typing import Any

import pytest

from relay_sidecar.core.access.node_identity import CallerCertificate, NodeCertificates

OWN, OTHER = "system:node:e1", "system:node:e2"


def certificate(*common_names: str) -> CallerCertificate:
    decoded: dict[str, Any] = {
        "subject": (
            (("organizationName", "system:nodes"),),
            *((("commonName", name),) for name in common_names),
        ),
        "notBefore": "Jan  1 00:00:00 2020 GMT",
        "notAfter": "Jan  1 00:00:00 2040 GMT",
    }
    return CallerCertificate.of(decoded, b"fingerprint")


@pytest.mark.parametrize(
    ("names", "is_taken"),
    [
        ((OWN,), True),
        ((OTHER,), False),
        ((OWN, OTHER), False),
        ((OTHER, OWN), False),
        ((OWN, OWN), False),
        ((), False),
    ],
)
def test_a_certificate_is_the_node_s_by_its_one_common_name(
    names: tuple[str, ...], is_taken: bool
) -> None:
    """The API server takes the last one of several, and would see another node."""
    found = NodeCertificates(OWN).refusal(certificate(*names), now=1.8e9, is_online=True)
    assert (found is None) is is_taken
    if found is not None and len(names) > 1:
        assert " and ".join(names) in found.message
