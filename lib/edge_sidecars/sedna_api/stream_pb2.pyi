from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FromNode(_message.Message):
    __slots__ = ("hello", "report")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    report: Report
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ...) -> None: ...

class ToNode(_message.Message):
    __slots__ = ("put", "delete", "snapshot_end", "ack", "refused", "drain", "rewound", "pace")
    PUT_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    REWOUND_FIELD_NUMBER: _ClassVar[int]
    PACE_FIELD_NUMBER: _ClassVar[int]
    put: Put
    delete: Delete
    snapshot_end: SnapshotEnd
    ack: Ack
    refused: Refused
    drain: Drain
    rewound: Rewound
    pace: Pace
    def __init__(self, put: _Optional[_Union[Put, _Mapping]] = ..., delete: _Optional[_Union[Delete, _Mapping]] = ..., snapshot_end: _Optional[_Union[SnapshotEnd, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ..., rewound: _Optional[_Union[Rewound, _Mapping]] = ..., pace: _Optional[_Union[Pace, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("node", "store_id", "known", "version")
    class KnownEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    node: str
    store_id: str
    known: _containers.ScalarMap[str, int]
    version: str
    def __init__(self, node: _Optional[str] = ..., store_id: _Optional[str] = ..., known: _Optional[_Mapping[str, int]] = ..., version: _Optional[str] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("store_id", "seq", "uid", "kind", "namespace", "name", "is_event", "worker", "body", "previous")
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_EVENT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    store_id: str
    seq: int
    uid: str
    kind: str
    namespace: str
    name: str
    is_event: bool
    worker: str
    body: bytes
    previous: int
    def __init__(self, store_id: _Optional[str] = ..., seq: _Optional[int] = ..., uid: _Optional[str] = ..., kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., is_event: _Optional[bool] = ..., worker: _Optional[str] = ..., body: _Optional[bytes] = ..., previous: _Optional[int] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("kind", "object")
    KIND_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    object: bytes
    def __init__(self, kind: _Optional[str] = ..., object: _Optional[bytes] = ...) -> None: ...

class Delete(_message.Message):
    __slots__ = ("kind", "namespace", "name", "uid", "resource_version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: int
    def __init__(self, kind: _Optional[str] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., resource_version: _Optional[int] = ...) -> None: ...

class SnapshotEnd(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ack(_message.Message):
    __slots__ = ("store_id", "uid", "seq")
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    store_id: str
    uid: str
    seq: int
    def __init__(self, store_id: _Optional[str] = ..., uid: _Optional[str] = ..., seq: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("store_id", "uid", "seq", "reason")
    STORE_ID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    store_id: str
    uid: str
    seq: int
    reason: str
    def __init__(self, store_id: _Optional[str] = ..., uid: _Optional[str] = ..., seq: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Pace(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: float
    def __init__(self, seconds: _Optional[float] = ...) -> None: ...

class Rewound(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
