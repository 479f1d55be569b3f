"""The reads of what is cached, once the caller is admitted: which handler answers, and for whom."""

import random
from dataclasses import replace

from edge_sidecars.apimachinery.request.request_info import ListOptions, get_version
from edge_sidecars.runtime.web import aiohttp_web as web
from relay_sidecar.access.admission import CALLER, Access
from relay_sidecar.journal.journal import Journal
from relay_sidecar.streams.streams import Streams
from relay_sidecar.upstream.messages import Upstream
from relay_sidecar.web.reads.freshness import Freshness, ReadSettings
from relay_sidecar.web.reads.gets import Gets
from relay_sidecar.web.reads.lists import Lists, MetadataSource
from relay_sidecar.web.reads.selection import ClientRead, SelectableFields, Selection
from relay_sidecar.web.reads.watches import LearnKind, Watches, learn_nothing
from relay_sidecar.web.reads.writes import Writes


class Reads:
    def __init__(
        self,
        access: Access,
        upstream: Upstream,
        streams: Streams,
        schemas: SelectableFields,
        journal: Journal,
        settings: ReadSettings,
        *,
        metadata: MetadataSource | None = None,
        learn_kind: LearnKind = learn_nothing,
    ) -> None:
        """`metadata`: by which lists are proved; None: by none. `learn_kind`: as `Watches`."""
        self.streams = streams
        self.freshness = Freshness(streams, upstream, journal, settings)
        self.writes = Writes(self.freshness)
        self._access = access
        selection = Selection(schemas, upstream)
        self._gets = Gets(self.freshness)
        self._lists = Lists(selection, self.freshness, metadata=metadata)
        self._watches = Watches(
            selection,
            self.freshness,
            chance=random.random,
            learn_kind=learn_kind,
        )

    async def get(self, read: ClientRead) -> web.StreamResponse:
        await self._access.may(
            read.request[CALLER], read.info, label_selector="", field_selector=""
        )
        return await self._gets.answer(self._marked(read), get_version(read.info.query))

    def _marked(self, read: ClientRead) -> ClientRead:
        is_of_node = self._access.is_of_node(read.request[CALLER])
        return replace(read, is_of_node=True) if is_of_node else read

    async def list_or_watch(self, read: ClientRead, options: ListOptions) -> web.StreamResponse:
        labels, fields = str(options.labels), str(options.fields)

        async def permit() -> float:
            return await self._access.may(
                read.request[CALLER], read.info, label_selector=labels, field_selector=fields
            )

        # Before anything is opened, waited for or refused for another reason.
        await permit()
        read = self._marked(read)
        if read.info.verb == "watch":
            return await self._watches.answer(read, options, permit)
        return await self._lists.answer(read, options)
