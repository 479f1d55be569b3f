"""Which write is asked for, and how it is answered.

Owns the way from a request to the writer and back: paths, media types, options, refusals. Knows no
connection. Guarantees: every request is answered, refusals as a Status in kube-apiserver's words; a
change that is told of is stored.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from edge_sidecars.apimachinery.request.accept import Representation, representation
from edge_sidecars.apimachinery.request.list_options import ListOptions
from edge_sidecars.apimachinery.request.request_info import RequestInfo
from edge_sidecars.apimachinery.resources import check_fields
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.attrs import is_in_shard
from edge_sidecars.apimachinery.status import Refused, bad_request, unavailable
from tools.local_apiserver import response as answer
from tools.local_apiserver.core import api_errors, deletion, reviews
from tools.local_apiserver.core.api_resource import Resource
from tools.local_apiserver.core.body.decoding import written
from tools.local_apiserver.core.body.object_reader import (
    FieldValidation,
    duplicate_fields_of,
)
from tools.local_apiserver.core.body.write_options import (
    JSON,
    check_media_type,
    parsed_options,
    patch_types,
    sent_object,
    write_options,
)
from tools.local_apiserver.core.deletion import NAMESPACES, DeleteOptions
from tools.local_apiserver.core.unstructured import Object
from tools.local_apiserver.object_store import ObjectStore, decoded
from tools.local_apiserver.response import Answer
from tools.local_apiserver.storage import NotStored
from tools.local_apiserver.writer import ObjectWriter, Write, Written

# kubectl sends reviews in it; no other body is read in it.
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Asked(NamedTuple):
    """A request for a resource that is served."""

    resource: Resource
    info: RequestInfo
    content_type: str
    body: bytes
    is_status: bool

    @property
    def write(self) -> Write:
        namespace = self.info.namespace if self.resource.is_namespaced else ""
        return Write(self.resource, namespace, self.info.name, status_only=self.is_status)


class Requests:
    """`now` is the wall time."""

    def __init__(
        self, ledger: ObjectStore, writer: ObjectWriter, now: Callable[[], datetime]
    ) -> None:
        self._ledger = ledger
        self._writer = writer
        self._now = now

    async def answer(self, info: RequestInfo, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            wanted = representation(headers.get("Accept", ""))
            answer.check_acceptable(wanted)
            content_type = headers.get("Content-Type", "")
            resource = self._ledger.catalog.get(info.resource)
            if resource is None:
                return self._answer_unstored(info, content_type, body)
            is_status = info.subresource == "status" and resource.has_status
            asked = Asked(resource, info, content_type, body, is_status)
            _check_path(asked)
            return await self._dispatch(asked, wanted)
        except Refused as refused:
            return answer.of_status(refused.status)
        except RecursionError:
            # Before anything was decided: what is written is walked to its bottom before.
            return answer.of_status(bad_request("the object is nested too deeply"))
        except NotStored as error:
            return answer.of_status(unavailable(f"the change could not be stored: {error}", 1))

    def _answer_unstored(self, info: RequestInfo, content_type: str, body: bytes) -> Answer:
        """Reviews are answered; all else is not here. Raises Refused."""
        asked, name = reviews.review(info.resource), info.resource
        if asked is None:
            if self._ledger.catalog.has_version(name.group, name.version):
                raise api_errors.not_served()
            return Answer(HTTPStatus.NOT_FOUND, _TEXT, b"404 page not found\n")
        if info.verb != "create" or info.name:
            raise api_errors.not_allowed()
        media_type = check_media_type(content_type, (JSON, _PROTOBUF))
        # The answer is the same for each review, and has a sent object only where that was JSON.
        sent = sent_object(asked.kind, body) if media_type == JSON else {}
        found = reviews.answer(asked, sent, now=written(self._now()))
        return Answer(HTTPStatus.CREATED, answer.JSON, msgspec.json.encode(found))

    async def _dispatch(self, asked: Asked, wanted: Representation) -> Answer:
        resource, info = asked.resource, asked.info
        match info.verb:
            case "create" if not info.name:
                write, sent = _sent(asked, "CreateOptions")
                done = await self._writer.create(write, sent)
            case "update" if info.name:
                write, sent = _sent(asked, "UpdateOptions")
                done = await self._writer.update(write, sent)
            case "patch" if info.name:
                media_type = check_media_type(asked.content_type, patch_types(resource))
                write = _with_options(asked, "PatchOptions")
                done = await self._writer.patch(write, media_type, asked.body)
            case "delete" if info.name and not asked.is_status:
                done = await self._writer.delete(asked.write, _delete_options(asked))
                if done.is_gone and not resource.strategy.returns_deleted:
                    return answer.of_deleted(resource, decoded(done.raw))
            case "deletecollection" if resource.storage != NAMESPACES:
                return await self._delete_collection(asked, _delete_options(asked))
            case "get" if asked.is_status:
                done = self._writer.get(asked.write)
            case _:
                raise api_errors.not_allowed()
        return _answer(done, wanted)

    async def _delete_collection(self, asked: Asked, options: DeleteOptions) -> Answer:
        resource, info = asked.resource, asked.info
        selection = ListOptions.parse(info.query)
        check_fields(
            resource.name,
            selection.fields.paths,
            published=resource.selectable,
            is_namespaced=resource.is_namespaced,
        )
        scope = ListScope(resource.name, asked.write.namespace, selection.labels, selection.fields)
        found = [
            item
            for item in self._ledger.collection(resource).objects.values()
            if scope.matches(item)
            and (selection.shards.is_everything or is_in_shard(item, selection.shards))
        ]
        version = self._ledger.version
        if not options.is_dry_run:
            await self._writer.delete_all(resource, found, options)
        return answer.of_list(resource, found, version)


def _check_path(asked: Asked) -> None:
    """Whether the path leads to this resource at all. Raises Refused."""
    info, resource = asked.info, asked.resource
    if len(info.parts) > (3 if asked.is_status else 2):
        raise api_errors.not_served()
    is_in_namespace = bool(info.namespace) and resource.storage != NAMESPACES
    if is_in_namespace and not resource.is_namespaced:
        raise api_errors.not_served()
    if resource.is_namespaced and not info.namespace:
        raise api_errors.not_served() if info.name else api_errors.not_allowed()


def _sent(asked: Asked, options_kind: str) -> tuple[Write, Object]:
    """The object of a POST or PUT. Raises Refused."""
    check_media_type(asked.content_type, (JSON,))
    write = _with_options(asked, options_kind)
    sent = sent_object(asked.resource.kind, asked.body)
    if write.validation is not FieldValidation.IGNORE:
        duplicate_fields = [f'duplicate field "{path}"' for path in duplicate_fields_of(asked.body)]
        write = write._replace(duplicate_fields=duplicate_fields)
    return write, sent


def _with_options(asked: Asked, kind: str) -> Write:
    options = write_options(asked.info.query, kind)
    return asked.write._replace(is_dry_run=options.is_dry_run, validation=options.validation)


def _delete_options(asked: Asked) -> DeleteOptions:
    tree = parsed_options(asked.content_type, asked.body)
    return deletion.read_options(tree, asked.info.query)


def _answer(done: Written, wanted: Representation) -> Answer:
    status = HTTPStatus.CREATED if done.is_new else HTTPStatus.OK
    return answer.of_raw(done.raw, wanted, status=status, warnings=done.warnings)
