"""What is wrong with one field of an object, in kube-apiserver's words.

Source: apimachinery pkg/util/validation/field/errors.go. A fault becomes one cause of a 422
Status. Knows no rule by which a field is judged.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tools.local_apiserver.core.unstructured import Json


class FieldErrorType(StrEnum):
    """A cause's reason."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"


_WORDS = {
    FieldErrorType.NOT_FOUND: "Not found",
    FieldErrorType.REQUIRED: "Required value",
    FieldErrorType.DUPLICATE: "Duplicate value",
    FieldErrorType.INVALID: "Invalid value",
    FieldErrorType.NOT_SUPPORTED: "Unsupported value",
    FieldErrorType.FORBIDDEN: "Forbidden",
    FieldErrorType.TOO_LONG: "Too long",
    FieldErrorType.TOO_MANY: "Too many",
    FieldErrorType.TYPE_INVALID: "Invalid value",
}
_WITHOUT_VALUE = {
    FieldErrorType.REQUIRED,
    FieldErrorType.FORBIDDEN,
    FieldErrorType.TOO_LONG,
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One bad field: `path` such as "spec.ports[0].name"."""

    type: FieldErrorType
    path: str
    value: Json
    detail: str

    @property
    def message(self) -> str:
        """What a cause's message says; the path is said beside it."""
        said = _WORDS[self.type]
        if self.type not in _WITHOUT_VALUE:
            said += f": {shown(self.value)}"
        return f"{said}: {self.detail}" if self.detail else said

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def shown(value: Json) -> str:
    """A value as Go prints it in an error."""
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def required(path: str, detail: str = "") -> FieldError:
    return FieldError(FieldErrorType.REQUIRED, path, None, detail)


def invalid(path: str, value: Json, detail: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, path, value, detail)


def type_invalid(path: str, value: Json, detail: str) -> FieldError:
    return FieldError(FieldErrorType.TYPE_INVALID, path, value, detail)


def duplicate(path: str, value: Json) -> FieldError:
    return FieldError(FieldErrorType.DUPLICATE, path, value, "")


def forbidden(path: str, detail: str) -> FieldError:
    return FieldError(FieldErrorType.FORBIDDEN, path, None, detail)


def not_found(path: str, value: Json) -> FieldError:
    return FieldError(FieldErrorType.NOT_FOUND, path, value, "")


def too_long(path: str, limit: int) -> FieldError:
    unit = "byte" if limit == 1 else "bytes"
    return FieldError(FieldErrorType.TOO_LONG, path, None, f"may not be more than {limit} {unit}")


def too_many(path: str, count: int, limit: int) -> FieldError:
    unit = "item" if limit == 1 else "items"
    return FieldError(FieldErrorType.TOO_MANY, path, count, f"must have at most {limit} {unit}")


def not_supported(path: str, value: Json, supported: Sequence[Json]) -> FieldError:
    listed = ", ".join(shown(text) for text in supported)
    return FieldError(FieldErrorType.NOT_SUPPORTED, path, value, f"supported values: {listed}")


def joined(faults: Sequence[FieldError]) -> str:
    """All in one line, each once, as in a Status' message (util/errors Aggregate.Error)."""
    said = list(dict.fromkeys(str(fault) for fault in faults))
    return said[0] if len(said) == 1 else f"[{', '.join(said)}]"
