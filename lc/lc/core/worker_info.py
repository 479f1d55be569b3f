"""What a worker tells the node's LC (prior art: Sedna's `POST /sedna/workers/{name}/info`).

Owns the words and how JSON becomes them; knows nothing of HTTP nor of what follows. Numbers, words
and lists that Sedna's library sends come through unchanged; what has another shape is refused with
the reason.
"""

from collections.abc import Mapping

import msgspec

from edge_sidecars.runtime.formats.rfc1123 import is_subdomain

# What an object or a report that is not as it should be may raise in code that trusts it. A
# loop over objects catches these for each of them: one bad object stops nothing.
UNFORESEEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class UnusableReport(ValueError):
    """What a worker says cannot be used; the message, for its author, says why."""


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` train|eval|deploy|inference and `status` completed|failed|running|"": lower case."""

    name: str
    namespace: str
    owner_name: str
    owner_kind: str
    owner_info: Mapping[str, object] | None = None
    kind: str = ""
    status: str = ""
    results: tuple[Mapping[str, object], ...] = ()
    # From the path that it was sent to.
    capability: str = ""

    @classmethod
    def parse(cls, raw: object, *, capability: str = "") -> "WorkerInfo":
        """Raises UnusableReport."""
        if not isinstance(raw, dict):
            raise UnusableReport("the body is not an object")
        owner_info = raw.get("ownerInfo")
        if owner_info is not None and not isinstance(owner_info, dict):
            raise UnusableReport("ownerInfo is not an object")
        return cls(
            name=_text(raw, "name"),
            namespace=_text(raw, "namespace"),
            owner_name=_text(raw, "ownerName"),
            owner_kind=_text(raw, "ownerKind").lower(),
            owner_info=owner_info,
            kind=_text(raw, "kind").lower(),
            status=_text(raw, "status").lower(),
            results=_results(raw.get("results")),
            capability=capability,
        )

    @property
    def output(self) -> dict[str, object]:
        """Of a stage, as GM gets it."""
        return {"models": list(self.results), "ownerInfo": self.owner_info}

    def check_names(self) -> None:
        """Of an owner that cannot be looked up. Raises UnusableReport."""
        for field, value in (
            ("name", self.name),
            ("namespace", self.namespace),
            ("ownerName", self.owner_name),
        ):
            if not is_subdomain(value):
                raise UnusableReport(f"{field} {value!r:.80} is no name of Kubernetes")


def _text(raw: Mapping[str, object], field: str) -> str:
    value = raw.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnusableReport(f"{field} is not a text")
    return value


def _results(value: object) -> tuple[Mapping[str, object], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise UnusableReport("results is not a list of objects")
    return tuple(value)
