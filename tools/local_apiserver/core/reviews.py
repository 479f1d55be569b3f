"""What a client asks about itself. All clients are the same here, and may do everything."""

from dataclasses import dataclass

from edge_sidecars.apimachinery.resources import ResourceName
from tools.local_apiserver.core.unstructured import Object, mapping

# There is no authentication: one name for all.
USERNAME = "local-apiserver:anybody"
_GROUPS = ("system:masters", "system:authenticated")


@dataclass(frozen=True, slots=True)
class Review:
    """A kind that is answered and never stored."""

    name: ResourceName
    kind: str


_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"
ACCESS = Review(
    ResourceName(_AUTHORIZATION, "v1", "selfsubjectaccessreviews"), "SelfSubjectAccessReview"
)
RULES = Review(
    ResourceName(_AUTHORIZATION, "v1", "selfsubjectrulesreviews"), "SelfSubjectRulesReview"
)
SELF = Review(ResourceName(_AUTHENTICATION, "v1", "selfsubjectreviews"), "SelfSubjectReview")
REVIEWS = (ACCESS, RULES, SELF)


def review(name: ResourceName) -> Review | None:
    return next((one for one in REVIEWS if one.name == name), None)


def answer(asked: Review, sent: Object, *, now: str) -> Object:
    """The review with its status."""
    head: Object = {"kind": asked.kind, "apiVersion": asked.name.api_version}
    match asked.kind:
        case "SelfSubjectAccessReview":
            return {
                **head,
                "metadata": {},
                "spec": mapping(sent, "spec"),
                "status": {"allowed": True},
            }
        case "SelfSubjectRulesReview":
            return {**head, "metadata": {}, "spec": {}, "status": _rules()}
        case _:
            user: Object = {"username": USERNAME, "groups": list(_GROUPS)}
            return {
                **head,
                "metadata": {"creationTimestamp": now},
                "status": {"userInfo": user},
            }


def _rules() -> Object:
    return {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
