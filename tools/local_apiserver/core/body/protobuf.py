"""Objects of built-in types in protobuf, which typed clients of Go send.

Sources: apimachinery pkg/runtime/serializer/protobuf (the envelope), the types' own field numbers
(builtin/protobuf_fields.json). Guarantees: the object comes out as its JSON would: what Go writes
only because a field is no pointer ("" and the zero time) is left out.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

import msgspec

from edge_sidecars.apimachinery import protobuf_wire
from edge_sidecars.apimachinery.protobuf_wire import BadWire
from tools.local_apiserver.core.body.decoding import written
from tools.local_apiserver.core.builtin.builtin_types import raw_fields, raw_types
from tools.local_apiserver.core.unstructured import Json, Object, items, mapping, text

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A value in its wire form to JSON; None: it is left out.
Read = Callable[[int | memoryview], Json]


@dataclass(slots=True)
class _Message:
    """How a struct is read; `inlined` are structs whose fields stand among its own in JSON."""

    fields: dict[int, "_Field"] = field(default_factory=dict)
    inlined: dict[int, "_Message"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    read: Read
    is_pointer: bool
    is_list: bool
    map_value: Read | None


def is_readable(type_name: str) -> bool:
    """Whether objects of a type can be read: of those with a schema in them they cannot."""
    return type_name in raw_fields()


def read_object(body: bytes, type_name: str) -> Object:
    """Raises `BadWire`."""
    if not body.startswith(_MAGIC):
        raise BadWire("provided data does not appear to be a protobuf message")
    head: Object = {}
    raw = memoryview(b"")
    for number, value in protobuf_wire.fields(memoryview(body)[len(_MAGIC) :]):
        if number == 1:
            head = _read_head(_bytes(value))
        elif number == 2:
            raw = _bytes(value)
    return {**head, **_read_message(raw, _message(type_name))}


def _read_head(data: memoryview) -> Object:
    """runtime.TypeMeta"""
    names = {1: "apiVersion", 2: "kind"}
    return {
        names[number]: protobuf_wire.text(_bytes(value))
        for number, value in protobuf_wire.fields(data)
    }


def _read_message(data: memoryview, message: _Message) -> Object:
    found: Object = {}
    for number, value in protobuf_wire.fields(data):
        if (inlined := message.inlined.get(number)) is not None:
            found.update(_read_message(_bytes(value), inlined))
        elif (known := message.fields.get(number)) is not None:
            _take(found, known, value)
    return found


def _take(found: Object, known: _Field, value: int | memoryview) -> None:
    name = known.name
    if known.map_value is not None:
        key, entry = _entry(_bytes(value), known.map_value)
        former = found.setdefault(name, {})
        assert isinstance(former, dict)
        former[key] = entry
    elif known.is_list:
        former = found.setdefault(name, [])
        assert isinstance(former, list)
        former.append(known.read(value))
    else:
        read = known.read(value)
        if read is not None and (known.is_pointer or read != ""):
            found[name] = read


def _entry(data: memoryview, read: Read) -> tuple[str, Json]:
    """Of a map: a message of a key and a value, each left out where it is empty."""
    key = ""
    value: Json = read(memoryview(b""))
    for number, part in protobuf_wire.fields(data):
        if number == 1:
            key = protobuf_wire.text(_bytes(part))
        elif number == 2:
            value = read(part)
    return key, value


# How the types are read


@cache
def _message(type_name: str) -> _Message:
    message = _Message()
    _fill(message, raw_fields()[type_name], mapping(raw_types()[type_name], "properties"))
    return message


def _fill(message: _Message, numbers: Mapping[str, Json], properties: Object) -> None:
    for name, number in numbers.items():
        if isinstance(number, int) and name in properties:
            schema = mapping(properties, name)
            message.fields[abs(number)] = _field(name, schema, is_pointer=number < 0)
    for inlined in items(dict(numbers), ""):
        match inlined:
            case [int() as number, dict() as inner]:
                message.inlined[number] = _Message()
                _fill(message.inlined[number], inner, properties)


def _field(name: str, schema: Object, *, is_pointer: bool) -> _Field:
    is_list = text(schema, "type") == "array"
    additional = schema.get("additionalProperties")
    return _Field(
        name=name,
        read=_reader(mapping(schema, "items") if is_list else schema),
        is_pointer=is_pointer,
        is_list=is_list,
        map_value=_reader(additional) if isinstance(additional, dict) else None,
    )


def _reader(schema: Object) -> Read:
    if name := text(schema, "$ref"):
        return _SPECIAL.get(name.rpartition(".")[2]) or _struct_reader(name)
    match text(schema, "type"), text(schema, "format"):
        case "string", "byte":
            return lambda value: base64.b64encode(_bytes(value)).decode()
        case "string", _:
            return lambda value: protobuf_wire.text(_bytes(value))
        case "integer", _:
            return _integer
        case "boolean", _:
            return lambda value: bool(_number(value))
        case "number", _:
            return lambda value: protobuf_wire.double(_bytes(value))
        case _:
            return _read_raw


def _struct_reader(name: str) -> Read:
    def read(value: int | memoryview) -> Json:
        return _read_message(_bytes(value), _message(name))

    return read


def _integer(value: int | memoryview) -> Json:
    return protobuf_wire.signed(_number(value))


def _read_raw(value: int | memoryview) -> Json:
    """FieldsV1, RawExtension: JSON inside of a message."""
    for number, raw in protobuf_wire.fields(_bytes(value)):
        if number == 1:
            try:
                decoded: Json = msgspec.json.decode(_bytes(raw))
            except ValueError as error:
                raise BadWire(str(error)) from error
            return decoded
    return None


def _read_quantity(value: int | memoryview) -> Json:
    found = dict(protobuf_wire.fields(_bytes(value)))
    return protobuf_wire.text(_bytes(found[1])) if 1 in found else "0"


def _read_int_or_string(value: int | memoryview) -> Json:
    found = dict(protobuf_wire.fields(_bytes(value)))
    if _number(found.get(1, 0)):
        return protobuf_wire.text(_bytes(found.get(3, memoryview(b""))))
    return protobuf_wire.signed(_number(found.get(2, 0)))


def _read_moment(value: int | memoryview) -> datetime | None:
    found = dict(protobuf_wire.fields(_bytes(value)))
    if not found:
        return None
    seconds, nanos = protobuf_wire.signed(_number(found.get(1, 0))), _number(found.get(2, 0))
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise BadWire(str(error)) from error


def _read_time(value: int | memoryview) -> Json:
    moment = _read_moment(value)
    return None if moment is None else written(moment)


def _read_micro_time(value: int | memoryview) -> Json:
    moment = _read_moment(value)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_SPECIAL: Mapping[str, Read] = {
    "Quantity": _read_quantity,
    "IntOrString": _read_int_or_string,
    "Time": _read_time,
    "MicroTime": _read_micro_time,
    "FieldsV1": _read_raw,
}


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise BadWire("wrong wireType")
    return value


def _number(value: int | memoryview) -> int:
    if isinstance(value, int):
        return value
    raise BadWire("wrong wireType")
