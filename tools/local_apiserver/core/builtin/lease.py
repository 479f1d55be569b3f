"""Lease (Kubernetes pkg/apis/coordination/validation, pkg/registry/coordination/lease)."""

from collections.abc import Iterable, Sequence

from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.unstructured import Object, mapping, number


def _drop_gated(obj: Object) -> None:
    """Fields of the gate CoordinatedLeaderElection, which is off by default."""
    spec = mapping(obj, "spec")
    for field in ("strategy", "preferredHolder"):
        spec.pop(field, None)


def _check(obj: Object) -> Sequence[FieldError]:
    return list(_spec_faults(mapping(obj, "spec")))


def _spec_faults(spec: Object) -> Iterable[FieldError]:
    duration, transitions = number(spec, "leaseDurationSeconds"), number(spec, "leaseTransitions")
    if duration is not None and duration <= 0:
        yield field_errors.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")
    if transitions is not None and transitions < 0:
        said = "must be greater than or equal to 0"
        yield field_errors.invalid("spec.leaseTransitions", transitions, said)


LEASE = Strategy(
    demands_standard_finalizers=False,
    allows_unconditional_update=False,
    allows_create_on_update=True,
    default=_drop_gated,
    check=_check,
)
