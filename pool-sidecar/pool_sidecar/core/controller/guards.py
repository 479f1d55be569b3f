"""Whether the admission policies are there that make votes and taints trustworthy. Pure.

Without the first any node could vote in another one's name, without the second this account could
change any Node. Guarantees: a policy counts only where it denies, fails closed, and is bound
without a selector of its own.
"""

from typing import Any, Final

from pool_sidecar.core.pool_member import Json

GROUP_PATH: Final = "/apis/admissionregistration.k8s.io/v1"
# Names of policies and of their bindings, as manifests/pool-policies has them.
POLICIES: Final = ("poolmembers.pool.edge-sidecars.io", "pool-controller.pool.edge-sidecars.io")
REMEDY: Final = "apply manifests/pool-policies"


def lack(name: str, policy: Json | None, binding: Json | None) -> str:
    """What is wrong with one of them, "" where nothing is. None: it is not there."""
    if policy is None:
        return f"the ValidatingAdmissionPolicy {name} is missing: {REMEDY}"
    if binding is None:
        return f"the ValidatingAdmissionPolicyBinding {name} is missing: {REMEDY}"
    spec, bound = _object(policy.get("spec")), _object(binding.get("spec"))
    # k8s.io/api/admissionregistration/v1: Fail is the default.
    if spec.get("failurePolicy", "Fail") != "Fail":
        return f"the ValidatingAdmissionPolicy {name} does not fail closed: {REMEDY}"
    if not spec.get("validations"):
        return f"the ValidatingAdmissionPolicy {name} has no validations: {REMEDY}"
    is_bound = bound.get("policyName") == name and "Deny" in (bound.get("validationActions") or ())
    if not is_bound:
        return f"the ValidatingAdmissionPolicyBinding {name} does not deny: {REMEDY}"
    if bound.get("matchResources") or bound.get("paramRef"):
        return f"the ValidatingAdmissionPolicyBinding {name} is for some objects only: {REMEDY}"
    return ""


def _object(found: Any) -> Json:
    return found if isinstance(found, dict) else {}
