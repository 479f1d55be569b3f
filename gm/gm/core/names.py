"""Names and labels of children: the same for everybody who decides about an object.

Guarantees: legal for any legal name of an object, however long; two jobs never share one, for what
was cut or changed ends in a hash of the whole. Where nothing has to be changed they are Sedna's.
"""

import hashlib
import re
from typing import Final

from edge_sidecars.sedna_api.core.kinds import GROUP, ResourceKind

# k8s.io/apimachinery/pkg/util/validation: LabelValueMaxLength, DNS1123LabelMaxLength. Names of pods
# may be longer, but what lies beyond is cut off their hostname.
LONGEST: Final = 63
_SERVICE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?", re.ASCII)
# Hexadecimal digits: 32 bits, among the jobs of one namespace that begin alike.
_DIGITS: Final = 8

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "sedna-gm"
ROUND_LABEL: Final = "sedna.io/round"
SPEC_HASH: Final = "sedna.io/spec-hash"
# The generation that a run of a job was made from: an edited job begins anew.
GENERATION: Final = "sedna.io/generation"
# What EdgeMesh finds Deployments by.
APP_LABEL: Final = "app.sedna.io"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def label_value(text: str) -> str:
    """At most 63 characters."""
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - _DIGITS - 1].rstrip('-._')}-{digest(text)}"


def child_name(job: str, *parts: str) -> str:
    """`<job>-<part>-<part>`, in lower case."""
    suffix = "-".join(parts).lower()
    name = f"{job}-{suffix}"
    if len(name) <= LONGEST:
        return name
    head = job[: max(LONGEST - len(suffix) - _DIGITS - 2, 1)].rstrip("-.")
    return f"{head}-{digest(job)}-{suffix}"


def service_name(job: str, worker_type: str) -> str:
    """`<job>-<type>`, as a DNS label that begins with a letter (RFC 1035)."""
    name = child_name(job, worker_type)
    if _SERVICE.fullmatch(name):
        return name
    legal = job.replace(".", "-")
    head = legal if legal[:1].isalpha() else f"s-{legal}"
    return child_name(f"{head}-{digest(job)}", worker_type)


def worker_labels(kind: ResourceKind, job: str, uid: str, worker_type: str) -> dict[str, str]:
    """Sedna's labels, by which Services and Deployments select pods."""
    prefix = f"{kind.singular}.{GROUP}/"
    return {
        f"{prefix}name": label_value(job),
        f"{prefix}uid": uid,
        f"{prefix}worker-type": worker_type.lower(),
    }
