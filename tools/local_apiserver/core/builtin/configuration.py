"""ConfigMap, Secret and ServiceAccount (Kubernetes pkg/apis/core/validation/validation.go)."""

import base64
from collections.abc import Iterable, Sequence

from tools.local_apiserver.core import names
from tools.local_apiserver.core.api_resource import Strategy
from tools.local_apiserver.core.schema import field_errors
from tools.local_apiserver.core.schema.field_errors import FieldError
from tools.local_apiserver.core.unstructured import Object, is_equal, mapping, text

# core.MaxSecretSize, also ConfigMap's
SIZE_LIMIT = 1024 * 1024
_FROZEN = "field is immutable when `immutable` is set"


def _keys(data: Object, path: str) -> Iterable[FieldError]:
    for key in data:
        if said := names.config_key(key):
            yield field_errors.invalid(f"{path}[{key}]", key, said)


def _check_config_map(obj: Object) -> Sequence[FieldError]:
    data, binary = mapping(obj, "data"), mapping(obj, "binaryData")
    found = list(_keys(data, "data"))
    for key in sorted(data.keys() & binary.keys()):
        said = "duplicate of key present in binaryData"
        found.append(field_errors.invalid(f"data[{key}]", key, said))
    found += _keys(binary, "binaryData")
    size = sum(len(str(value).encode()) for value in (*data.values(), *binary.values()))
    if size > SIZE_LIMIT:
        found.append(field_errors.too_long("", SIZE_LIMIT))
    return found


def _check_frozen(obj: Object, current: Object, fields: Sequence[str]) -> Iterable[FieldError]:
    if current.get("immutable") is not True:
        return
    if obj.get("immutable") is not True:
        yield field_errors.forbidden("immutable", _FROZEN)
    for field in fields:
        if not is_equal(mapping(obj, field), mapping(current, field)):
            yield field_errors.forbidden(field, _FROZEN)


def _check_config_map_update(obj: Object, current: Object) -> Sequence[FieldError]:
    return list(_check_frozen(obj, current, ("data", "binaryData")))


def _default_secret(obj: Object) -> None:
    """`stringData` is for writing only."""
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        data = dict(mapping(obj, "data"))
        for key, value in plain.items():
            data[key] = base64.b64encode(str(value).encode()).decode()
        obj["data"] = data
    if not text(obj, "type"):
        obj["type"] = "Opaque"


CONFIG_MAP = Strategy(check=_check_config_map, check_update=_check_config_map_update)
SECRET = Strategy(default=_default_secret)
SERVICE_ACCOUNT = Strategy(returns_deleted=True)
