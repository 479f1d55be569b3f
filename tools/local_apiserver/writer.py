"""Creates, updates, patches and deletes: from a request to a stored change.

Owns the order of steps; what becomes of an object is decided in `core`, what is true in the ledger.
Guarantees: what is decided on is the stored state of the object, in its turn; between the decision
and its place in the order of changes nothing is awaited, so that a namespace that was there when it
was looked at is there still.
"""

import asyncio
import secrets
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from edge_sidecars.apimachinery.objects import Item, Key
from edge_sidecars.apimachinery.status import Refused
from tools.local_apiserver.core import (
    api_errors,
    crd,
    deletion,
    server_metadata,
    write_strategy,
)
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.decoding import Undecodable, written
from tools.local_apiserver.core.body.object_reader import (
    FieldValidation,
    check_kind,
    check_patched_kind,
    read,
    undecodable,
)
from tools.local_apiserver.core.body.write_options import bad_patch, patched
from tools.local_apiserver.core.deletion import NAMESPACES, DeleteOptions, Marked, Removed
from tools.local_apiserver.core.unstructured import Object, is_equal, mapping, text
from tools.local_apiserver.core.write_strategy import ServerMetadata
from tools.local_apiserver.object_store import ObjectStore

# apiserver pkg/registry/generic/registry/store.go: maxNameGenerationCreateAttempts
_NAME_ATTEMPTS = 8
# Deletions of one request that are under way at the same time.
_DELETED_AT_ONCE = 256


class Written(NamedTuple):
    """`raw` is the object after the write, or as it was when it went."""

    raw: bytes
    is_new: bool = False
    is_gone: bool = False
    warnings: Sequence[str] = ()


class Write(NamedTuple):
    """Where an object is written, and how. `status_only`: the subresource of that name; `doubled`
    are the fields that were sent more than once, in words."""

    resource: Resource
    namespace: str
    name: str = ""
    status_only: bool = False
    is_dry_run: bool = False
    validation: FieldValidation = FieldValidation.IGNORE
    duplicate_fields: Sequence[str] = ()

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class ObjectWriter:
    """`now` is the wall time."""

    def __init__(self, ledger: ObjectStore, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._now = now

    def get(self, write: Write) -> Written:
        """The object. Raises Refused."""
        return Written(_encoded(self._get(write)))

    async def create(self, write: Write, sent: Object) -> Written:
        """`sent` is used up. Raises Refused and NotStored."""
        resource = write.resource
        check_kind(resource, sent)
        warnings = _read(write, sent)
        meta = mapping(sent, "metadata")
        is_generated = not text(meta, "name") and bool(text(meta, "generateName"))
        self._check_place(write, text(meta, "name"))
        obj = write_strategy.create(
            resource, sent, namespace=write.namespace, birth=self._birth(is_generated)
        )
        for _ in range(_NAME_ATTEMPTS):
            key = (write.namespace, text(obj, "metadata", "name"))
            async with self._ledger.turn(resource, key):
                found = self._ledger.get(resource, key)
                if found is None:
                    self._check_place(write, key[1])
                    return await self._begin(write, obj, warnings)
            if not is_generated:
                break
            prefix = text(obj, "metadata", "generateName")
            server_metadata.of(obj)["name"] = server_metadata.generated_name(prefix, _suffix())
        is_ending = bool(text(found, "metadata", "deletionTimestamp"))
        name = resource.name
        raise api_errors.already_exists(name.group, name.plural, key[1], is_ending=is_ending)

    async def update(self, write: Write, sent: Object) -> Written:
        """A PUT. `sent` is used up. Raises Refused and NotStored."""
        resource = write.resource
        check_kind(resource, sent)
        warnings = _read(write, sent)
        write_strategy.check_name(sent, write.name)
        async with self._ledger.turn(resource, write.key):
            current = self._ledger.get(resource, write.key)
            if current is None:
                return await self._create_by_update(write, sent, warnings)
            write_strategy.check_uid(resource, mapping(sent, "metadata"), current)
            return await self._replace(write, sent, current, warnings)

    async def patch(self, write: Write, media_type: str, body: bytes) -> Written:
        """Raises Refused and NotStored."""
        resource = write.resource
        async with self._ledger.turn(resource, write.key):
            current = self._get(write)
            sent = patched(resource, current, media_type, body)
            try:
                check_patched_kind(resource, sent)
                warnings = _unread(write, sent)
            except Undecodable as error:
                raise bad_patch(str(error)) from error
            if warnings and write.validation is FieldValidation.STRICT:
                raise bad_patch(f"strict decoding error: {', '.join(warnings)}")
            write_strategy.check_name(sent, write.name)
            return await self._replace(write, sent, current, warnings)

    async def change(
        self, resource: Resource, key: Key, change: Callable[[Object], Object | None]
    ) -> None:
        """The server's own update of an object that may be gone: `change` makes the new state of
        a stored one, None where there is nothing to do."""
        async with self._ledger.turn(resource, key):
            current = self._ledger.get(resource, key)
            if current is None:
                return
            found = change(current)
            if found is not None and not is_equal(found, current):
                await self._store(resource, found)

    async def delete(self, write: Write, options: DeleteOptions) -> Written:
        """Raises Refused and NotStored."""
        resource = write.resource
        async with self._ledger.turn(resource, write.key):
            current = self._get(write)
            decided = self._deleted(resource, current, options)
            if options.is_dry_run:
                return Written(_encoded(decided.obj), is_gone=isinstance(decided, Removed))
            if isinstance(decided, Removed):
                item = await self._ledger.remove(resource, decided.obj)
                return Written(item.raw, is_gone=True)
            if is_equal(decided.obj, current):
                return Written(_encoded(current))
            return await self._store(resource, decided.obj)

    async def delete_all(
        self, resource: Resource, items: Sequence[Item], options: DeleteOptions
    ) -> None:
        """Deletes what is still there of these. Raises Refused and NotStored."""
        for first in range(0, len(items), _DELETED_AT_ONCE):
            some = items[first : first + _DELETED_AT_ONCE]
            writes = [Write(resource, *item.key) for item in some]
            await asyncio.gather(*(self.delete_if_there(write, options) for write in writes))

    async def delete_if_there(self, write: Write, options: DeleteOptions) -> None:
        """`delete` of what may have gone, or have been replaced by another of its name."""
        try:
            await self.delete(write, options)
        except Refused as refused:
            if refused.status.code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise

    # Steps

    def _get(self, write: Write) -> Object:
        found = self._ledger.get(write.resource, write.key)
        if found is None:
            name = write.resource.name
            raise api_errors.missing(name.group, name.plural, write.name)
        return found

    def _birth(self, is_generated: bool = False) -> ServerMetadata:
        suffix = _suffix() if is_generated else ""
        return ServerMetadata(uid=str(uuid.uuid4()), suffix=suffix, now=written(self._now()))

    def _check_place(self, write: Write, name: str) -> None:
        """Whether something may begin here. Raises Refused."""
        resource = self._ledger.catalog.get(write.resource.name)
        if resource is None:
            raise api_errors.not_served()
        if resource.is_ending:
            raise api_errors.not_allowed()
        if resource.is_namespaced:
            spaces = self._ledger.catalog.get(NAMESPACES)
            assert spaces is not None
            found = self._ledger.get(spaces, ("", write.namespace))
            write_strategy.check_admits(found, write.resource, name=name, of=write.namespace)

    async def _begin(self, write: Write, obj: Object, warnings: Sequence[str]) -> Written:
        warnings = [*warnings, *self._accept(write.resource, obj)]
        if write.is_dry_run:
            return Written(_encoded(obj), is_new=True, warnings=warnings)
        item = await self._ledger.put(write.resource, obj)
        return Written(item.raw, is_new=True, warnings=warnings)

    async def _create_by_update(
        self, write: Write, sent: Object, warnings: Sequence[str]
    ) -> Written:
        resource, meta = write.resource, mapping(sent, "metadata")
        name = resource.name
        if write.status_only or not resource.strategy.allows_create_on_update:
            raise api_errors.missing(name.group, name.plural, write.name)
        if uid := text(meta, "uid"):
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise api_errors.conflict(name.group, name.plural, write.name, why)
        self._check_place(write, write.name)
        write_strategy.check_number(text(meta, "resourceVersion"))
        meta.pop("resourceVersion", None)
        obj = write_strategy.create(resource, sent, namespace=write.namespace, birth=self._birth())
        return await self._begin(write, obj, warnings)

    async def _replace(
        self, write: Write, sent: Object, current: Object, warnings: Sequence[str]
    ) -> Written:
        resource = write.resource
        write_strategy.check_version(resource, server_metadata.of(sent), current)
        update = write_strategy.update_status if write.status_only else write_strategy.update
        obj = update(resource, sent, current, namespace=write.namespace)
        warnings = [*warnings, *self._accept(resource, obj)]
        if is_equal(obj, current) or write.is_dry_run:
            return Written(_encoded(obj), warnings=warnings)
        stored = await self._store(resource, obj)
        return stored._replace(warnings=warnings)

    async def _store(self, resource: Resource, obj: Object) -> Written:
        if deletion.is_over(resource, obj):
            return Written((await self._ledger.remove(resource, obj)).raw, is_gone=True)
        return Written((await self._ledger.put(resource, obj)).raw)

    def _accept(self, resource: Resource, obj: Object) -> Sequence[str]:
        """Decides what becomes of a definition; returns what to warn of."""
        if resource.storage != crd.DEFINITIONS:
            return ()
        crd.accept(obj, self._ledger.catalog, now=written(self._now()))
        return crd.warnings(obj)

    def _deleted(
        self, resource: Resource, current: Object, options: DeleteOptions
    ) -> Marked | Removed:
        now = self._now()
        if resource.storage == NAMESPACES:
            return deletion.delete_namespace(resource, current, options, now=written(now))
        if resource.storage == crd.DEFINITIONS:
            current = crd.with_finalizer(current)
        seconds = deletion.grace(resource, current, options)
        deadline = written(now + timedelta(seconds=seconds))
        return deletion.delete(resource, current, options, now=written(now), deadline=deadline)


def _read(write: Write, sent: Object) -> Sequence[str]:
    """Reads an object in place; returns what to warn of. Raises Refused."""
    try:
        found = [*write.duplicate_fields, *_unread(write, sent)]
        if found and write.validation is FieldValidation.STRICT:
            raise Undecodable(f"strict decoding error: {', '.join(found)}")
    except Undecodable as error:
        raise undecodable(write.resource, error) from error
    return found


def _unread(write: Write, sent: Object) -> Sequence[str]:
    unknown = read(write.resource, sent)
    return () if write.validation is FieldValidation.IGNORE else unknown


def _suffix() -> str:
    letters = server_metadata.SUFFIX_ALPHABET
    return "".join(secrets.choice(letters) for _ in range(server_metadata.SUFFIX_LENGTH))


def _encoded(obj: Object) -> bytes:
    return msgspec.json.encode(obj)
