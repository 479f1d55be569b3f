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
# The keys that a Secret of a type must have (core/v1 SecretType).
_REQUIRED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
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


def _check_secret(obj: Object) -> Sequence[FieldError]:
    data = mapping(obj, "data")
    found = list(_keys(data, "data"))
    if sum(len(str(value)) * 3 // 4 for value in data.values()) > SIZE_LIMIT:
        found.append(field_errors.too_long("data", SIZE_LIMIT))
    kind = text(obj, "type")
    wanted = _REQUIRED_KEYS.get(kind, ())
    found += [field_errors.required(f"data[{key}]") for key in wanted if key not in data]
    account = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not text(
        obj, "metadata", "annotations", account
    ):
        found.append(field_errors.required(f"metadata.annotations[{account}]"))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        found += [field_errors.required("data[username]"), field_errors.required("data[password]")]
    return found


def _check_secret_update(obj: Object, current: Object) -> Sequence[FieldError]:
    found = []
    if text(obj, "type") != text(current, "type"):
        found.append(field_errors.invalid("type", text(obj, "type"), "field is immutable"))
    return [*found, *_check_frozen(obj, current, ("data",))]


CONFIG_MAP = Strategy(check=_check_config_map, check_update=_check_config_map_update)
SECRET = Strategy(default=_default_secret, check=_check_secret, check_update=_check_secret_update)
SERVICE_ACCOUNT = Strategy(returns_deleted=True)
