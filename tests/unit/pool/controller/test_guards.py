"""When the controller takes an admission policy to be in force."""

import pytest

from pool_sidecar.core.controller.guards import lack
from pool_sidecar.core.pool_member import Json

NAME = "p"


def _policy(**spec: object) -> Json:
    return {"spec": {"failurePolicy": "Fail", "validations": [{"expression": "x"}], **spec}}


def _binding(**spec: object) -> Json:
    return {"spec": {"policyName": NAME, "validationActions": ["Deny"], **spec}}


def test_a_policy_that_denies_and_fails_closed_is_in_force() -> None:
    assert lack(NAME, _policy(), _binding()) == ""
    assert lack(NAME, _policy(), _binding(validationActions=["Audit", "Deny"])) == ""


@pytest.mark.parametrize(
    ("policy", "binding", "why"),
    [
        (None, _binding(), "is missing"),
        (_policy(), None, "Binding p is missing"),
        (_policy(failurePolicy="Ignore"), _binding(), "does not fail closed"),
        (_policy(validations=[]), _binding(), "has no validations"),
        (_policy(), _binding(validationActions=["Audit"]), "does not deny"),
        (_policy(), _binding(validationActions=None), "does not deny"),
        (_policy(), _binding(policyName="other"), "does not deny"),
        (_policy(), _binding(matchResources={"namespaceSelector": {}}), "for some objects only"),
        (_policy(), _binding(paramRef={"name": "x"}), "for some objects only"),
    ],
)
def test_any_other_is_not_and_the_words_say_why(
    policy: Json | None, binding: Json | None, why: str
) -> None:
    found = lack(NAME, policy, binding)
    assert why in found
    assert found.endswith("apply manifests/pool-policies")
