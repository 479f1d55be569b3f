"""A Kubernetes API in one process: `--origin local`.

Owns the life of the store, and which request is whose. Speaks in requests and answers, knows no
connection. Guarantees: an answer that tells of a change comes after the change is stored; lists and
watches see changes in the order of their versions.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Self

import msgspec

from relay_sidecar.core.accept import Representation, representation
from relay_sidecar.core.list_options import ListOptions
from relay_sidecar.core.request import RequestInfo
from relay_sidecar.core.resource_name import ResourceName
from relay_sidecar.core.scope import Scope
from relay_sidecar.core.status import Refused, bad_request, unavailable
from relay_sidecar.core.store import Collection
from relay_sidecar.origin import answer
from relay_sidecar.origin.answer import Answer
from relay_sidecar.origin.collector import Collector
from relay_sidecar.origin.core import deletion, namespaces, protobuf, refusals, reviews
from relay_sidecar.origin.core.builtin.cluster import SYSTEM_NAMESPACES
from relay_sidecar.origin.core.builtin.table import builtin_resources
from relay_sidecar.origin.core.catalog import Catalog
from relay_sidecar.origin.core.decoding import written
from relay_sidecar.origin.core.deletion import NAMESPACES, DeleteOptions
from relay_sidecar.origin.core.reading import FieldValidation, doubled_fields
from relay_sidecar.origin.core.request_body import (
    JSON,
    check_media_type,
    object_types,
    parsed_options,
    patch_types,
    sent_object,
    sent_tree,
    write_options,
)
from relay_sidecar.origin.core.resource import Resource
from relay_sidecar.origin.definitions import Definitions
from relay_sidecar.origin.documents import Documents
from relay_sidecar.origin.ledger import Ledger, Subscriber, decoded
from relay_sidecar.origin.storage import MemoryStorage, NotStored, SqliteStorage
from relay_sidecar.origin.writer import Write, Writer, Written

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Origin:
    """Made by `open`; `run` runs beside the requests; `close` comes last."""

    def __init__(self, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._now = now
        self._writer = Writer(ledger, now)
        self._documents = Documents(ledger.catalog)
        self._tasks: set[asyncio.Task[Answer]] = set()
        self._storage: SqliteStorage | MemoryStorage | None = None

    @classmethod
    async def open(cls, directory: Path | None, *, wall: Callable[[], float] = time.time) -> Self:
        """`directory` None: nothing is kept. Raises `Unusable` where what is there cannot be, and
        `DirectoryInUse` where another process has it."""
        ledger = Ledger(Catalog(builtin_resources()), wall)
        boot = await asyncio.to_thread(_boot_id)
        storage: SqliteStorage | MemoryStorage
        if directory is None:
            storage = MemoryStorage(ledger.settled)
        else:
            storage = SqliteStorage(directory, boot=boot, settled=ledger.settled)
        saved = await storage.load()
        ledger.restore(storage, saved, boot)
        Definitions(ledger)
        origin = cls(ledger, lambda: datetime.fromtimestamp(wall(), UTC))
        origin._storage = storage
        await origin._make_namespaces()
        return origin

    async def run(self) -> None:
        """What goes on in the background (dependents, namespaces, old Events), until cancelled."""
        await Collector(self._ledger, self._writer).run()

    async def close(self) -> None:
        """Finishes the writes that were begun."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._storage is not None:
            await self._storage.close()

    async def _make_namespaces(self) -> None:
        spaces = self._ledger.catalog.get(NAMESPACES)
        assert spaces is not None
        for name in SYSTEM_NAMESPACES:
            if self._ledger.find(spaces, ("", name)) is None:
                await self._writer.create(Write(spaces, ""), namespaces.begun(name))

    # Reading

    def resource(self, name: ResourceName) -> Resource | None:
        return self._ledger.catalog.get(name)

    def collection(self, name: ResourceName) -> Collection:
        """Of a resource that is served; its cursor is the version of all resources."""
        resource = self._ledger.catalog.get(name)
        if resource is None:
            raise KeyError(name)
        return self._ledger.collection(resource)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Is told of all changes after they are stored, in order, those of one resource at once."""
        self._ledger.subscribe(subscriber)

    def on_renewal(self, renewed: Callable[[ResourceName], None]) -> None:
        """Is told when a resource's collection began anew, or the resource is gone."""
        self._ledger.on_renewal(renewed)

    @property
    def failure(self) -> str | None:
        """Why the last change could not be stored; None if it could."""
        return None if self._storage is None else self._storage.failure

    async def document(self, path: str, accept: str) -> Answer | None:
        """Discovery, OpenAPI, version and health; None where nothing is at the path."""
        return self._documents.answer(path, accept)

    # Writing

    async def write(self, info: RequestInfo, *, headers: Mapping[str, str], body: bytes) -> Answer:
        """Whatever is asked of a resource but get, list and watch of its objects.

        A client that goes away does not stop a write half-way.
        """
        task = asyncio.ensure_future(self._answered(info, headers, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _answered(self, info: RequestInfo, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            wanted = representation(headers.get("Accept", ""))
            answer.check_acceptable(wanted)
            resource = self._ledger.catalog.get(info.resource)
            if resource is None:
                return self._answer_unstored(info, headers, body)
            return await self._dispatch(resource, info, headers, body, wanted)
        except Refused as refused:
            return answer.of_status(refused.status)
        except RecursionError:
            # Before anything was decided: what is written is walked to its bottom before.
            return answer.of_status(bad_request("the object is nested too deeply"))
        except NotStored as error:
            return answer.of_status(unavailable(f"the change could not be stored: {error}"))

    def _answer_unstored(
        self, info: RequestInfo, headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Reviews are answered; all else is not here. Raises Refused."""
        asked, name = reviews.review(info.resource), info.resource
        if asked is None:
            if self._ledger.catalog.has_version(name.group, name.version):
                raise refusals.not_served()
            return Answer(HTTPStatus.NOT_FOUND, _TEXT, b"404 page not found\n")
        if info.verb != "create" or info.name:
            raise refusals.not_allowed()
        accepted = (JSON, protobuf.MEDIA_TYPE)
        media_type = check_media_type(headers.get("Content-Type", ""), accepted)
        # Whatever is asked, the answer is the same: what was sent in protobuf is not told again.
        sent = sent_tree(asked.kind, body) if media_type == JSON else {}
        found = reviews.answer(asked, sent, now=written(self._now()))
        return Answer(HTTPStatus.CREATED, answer.JSON, msgspec.json.encode(found))

    async def _dispatch(
        self,
        resource: Resource,
        info: RequestInfo,
        headers: Mapping[str, str],
        body: bytes,
        wanted: Representation,
    ) -> Answer:
        is_status = info.subresource == "status" and resource.has_status
        if len(info.parts) > (3 if is_status else 2):
            raise refusals.not_served()
        namespace = info.namespace if resource.is_namespaced else ""
        content_type = headers.get("Content-Type", "")
        write = Write(resource, namespace, info.name, status_only=is_status)
        match info.verb:
            case "create" if not info.name:
                media_type = check_media_type(content_type, object_types(resource))
                write = _with_options(write, info, "CreateOptions")
                sent = sent_object(resource, media_type, body)
                done = await self._writer.create(_with_doubled(write, media_type, body), sent)
            case "update" if info.name:
                media_type = check_media_type(content_type, object_types(resource))
                write = _with_options(write, info, "UpdateOptions")
                sent = sent_object(resource, media_type, body)
                done = await self._writer.update(_with_doubled(write, media_type, body), sent)
            case "patch" if info.name:
                media_type = check_media_type(content_type, patch_types(resource))
                write = _with_options(write, info, "PatchOptions")
                done = await self._writer.patch(write, media_type, body)
            case "delete" if info.name and not is_status:
                options = deletion.read_options(parsed_options(content_type, body), info.query)
                done = await self._writer.delete(write, options)
                if done.is_gone and not resource.strategy.returns_deleted:
                    return answer.of_deleted(resource, decoded(done.raw))
            case "deletecollection" if resource.storage != NAMESPACES:
                options = deletion.read_options(parsed_options(content_type, body), info.query)
                return await self._delete_collection(resource, info, namespace, options)
            case "get" if is_status:
                done = self._writer.get(write)
            case _:
                raise refusals.not_allowed()
        return _answer(done, wanted)

    async def _delete_collection(
        self, resource: Resource, info: RequestInfo, namespace: str, options: DeleteOptions
    ) -> Answer:
        asked = ListOptions.parse(info.query)
        scope = Scope(resource.name, namespace, asked.labels, asked.fields)
        found = [
            item
            for item in self._ledger.collection(resource).objects.values()
            if scope.matches(item)
        ]
        version = self._ledger.version
        if not options.is_dry_run:
            await self._writer.delete_all(resource, found, options)
        return answer.of_list(resource, found, version)


def _with_options(write: Write, info: RequestInfo, kind: str) -> Write:
    options = write_options(info.query, kind)
    return write._replace(is_dry_run=options.is_dry_run, validation=options.validation)


def _with_doubled(write: Write, media_type: str, body: bytes) -> Write:
    if write.validation is FieldValidation.IGNORE or media_type != JSON:
        return write
    doubled = [f'duplicate field "{path}"' for path in doubled_fields(body)]
    return write._replace(doubled=doubled)


def _answer(done: Written, wanted: Representation) -> Answer:
    status = HTTPStatus.CREATED if done.is_new else HTTPStatus.OK
    return answer.of_raw(done.raw, wanted, status=status, warnings=done.warnings)


def _boot_id() -> str:
    """Of this run of the machine; "" where it does not tell."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
