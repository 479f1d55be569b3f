"""Changes of the schemas that a real API server publishes, noticed by who holds objects of them."""

import asyncio
from pathlib import Path

import pytest

from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.kubeapi import Unreachable
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Saved
from relay_sidecar.upstream.documents.documents import SPACE as DOCUMENTS
from relay_sidecar.upstream.documents.documents import DocumentCache
from relay_sidecar.upstream.documents.schemas import SPACE, Schemas
from tests.integration.relay.documents.asked import Asked, with_upstream
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fault_proxy.proxy import FaultProxy
from tools.harness.relay_objects import Widgets

PODS = ResourceName("", "v1", "pods")
COLORED = {"site": {"type": "string"}, "color": {"type": "string", "default": "green"}}


class Watcher:
    """Whoever holds objects of `held`; `told`: what it was told to list anew."""

    def __init__(self, asked: Asked, journal: Journal, saved: Saved, *held: ResourceName) -> None:
        self.told: list[frozenset[ResourceName]] = []
        self.held = list(held)
        self.is_listing = True
        self.schemas = Schemas(
            DocumentCache(journal, saved.kept.get(DOCUMENTS, {})),
            asked,
            journal,
            saved.kept.get(SPACE, {}),
            held=lambda: self.held,
            changed=self._changed,
        )

    async def _changed(self, resources: frozenset[ResourceName]) -> None:
        if not self.is_listing:
            raise asyncio.CancelledError
        self.told.append(resources)

    async def polled_until_told(self) -> None:
        while not self.told:
            await self.schemas.poll()
            await asyncio.sleep(0.1)


def name_of(widgets: Widgets) -> ResourceName:
    return ResourceName(widgets.group, "v1", widgets.plural)


async def published(watcher: Watcher, widgets: Widgets) -> frozenset[str]:
    """Until upstream has published it."""
    while (found := await watcher.schemas.published(name_of(widgets))) is None:
        await asyncio.sleep(0.1)
        await watcher.schemas.poll()
    return found


def test_a_changed_schema_is_told_once_and_only_of_the_resource_that_it_is_of(
    control_plane: ControlPlane,
) -> None:
    widgets, others = Widgets(control_plane), Widgets(control_plane)

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets), name_of(others), PODS)
        assert await published(watcher, widgets) == {"spec.site"}
        assert await published(watcher, others) == {"spec.site"}
        assert not any("/api/v1" in path for path, _ in asked.asked)
        await asyncio.to_thread(widgets.change_schema, COLORED)
        await watcher.polled_until_told()
        for _ in range(3):
            await watcher.schemas.poll()
        assert watcher.told == [frozenset({name_of(widgets)})]

    with_upstream(control_plane, None, run)


def test_a_field_that_becomes_selectable_is_known_after_the_change(
    control_plane: ControlPlane,
) -> None:
    widgets = Widgets(control_plane, selectable=())

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        assert await published(watcher, widgets) == frozenset()
        await asyncio.to_thread(widgets.select, (".spec.size",))
        await watcher.polled_until_told()
        assert await watcher.schemas.published(name_of(widgets)) == frozenset({"spec.size"})

    with_upstream(control_plane, None, run)


def test_looking_at_schemas_that_did_not_change_costs_next_to_nothing(
    control_plane: ControlPlane,
) -> None:
    widgets = Widgets(control_plane)

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        await published(watcher, widgets)
        asked.forget()
        await watcher.schemas.poll()
        await watcher.schemas.poll()
        assert asked.asked == [(f"/openapi/v3/apis/{widgets.group}/v1", 304)] * 2
        assert asked.received == 0
        # Nobody holds objects of it any more.
        watcher.held.clear()
        await watcher.schemas.poll()
        assert len(asked.asked) == 2

    with_upstream(control_plane, None, run)


def test_where_there_are_many_the_index_is_asked_once_for_all(control_plane: ControlPlane) -> None:
    many = [Widgets(control_plane) for _ in range(3)]

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        documents = DocumentCache(journal, {})
        watcher = Watcher(asked, journal, saved, *map(name_of, many))
        watcher.schemas = Schemas(
            documents, asked, journal, {}, held=lambda: watcher.held, changed=watcher._changed
        )
        for widgets in many:
            await published(watcher, widgets)
        # So short an index that it is cheaper than asking for each.
        await documents.remember(
            "/openapi/v3", 200, {"Content-Type": "text/plain"}, b'{"paths":{}}'
        )
        asked.forget()
        await watcher.schemas.poll()
        assert asked.asked == [("/openapi/v3", 200)]
        await asyncio.to_thread(many[1].change_schema, COLORED)
        while not watcher.told:
            await documents.remember(
                "/openapi/v3", 200, {"Content-Type": "text/plain"}, b'{"paths":{}}'
            )
            asked.forget()
            await watcher.schemas.poll()
            await asyncio.sleep(0.1)
        assert watcher.told == [frozenset({name_of(many[1])})]
        assert asked.asked == [
            ("/openapi/v3", 200),
            (f"/openapi/v3/apis/{many[1].group}/v1", 200),
        ]

    with_upstream(control_plane, None, run)


def test_a_change_that_came_while_the_relay_was_off_is_told(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    widgets = Widgets(control_plane)

    async def before(asked: Asked, journal: Journal, saved: Saved) -> None:
        await published(Watcher(asked, journal, saved, name_of(widgets)), widgets)

    async def after(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        await watcher.polled_until_told()
        assert watcher.told == [frozenset({name_of(widgets)})]

    with_upstream(control_plane, tmp_path, before)
    widgets.change_schema(COLORED)
    with_upstream(control_plane, tmp_path, after)


def test_a_change_whose_lists_were_not_done_before_the_end_is_told_again(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    widgets = Widgets(control_plane)

    async def before(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        await published(watcher, widgets)
        await asyncio.to_thread(widgets.change_schema, COLORED)
        watcher.is_listing = False
        with pytest.raises(asyncio.CancelledError):
            await watcher.polled_until_told()

    async def after(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        await watcher.schemas.poll()
        assert watcher.told == [frozenset({name_of(widgets)})]

    with_upstream(control_plane, tmp_path, before)
    with_upstream(control_plane, tmp_path, after)


def test_fields_are_known_while_upstream_is_out_of_reach_also_after_a_restart(
    control_plane: ControlPlane, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    widgets = Widgets(control_plane)
    server = f"https://127.0.0.1:{fault_proxy.port}"

    async def before(asked: Asked, journal: Journal, saved: Saved) -> None:
        await published(Watcher(asked, journal, saved, name_of(widgets)), widgets)

    async def after(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        assert await watcher.schemas.published(name_of(widgets)) == frozenset({"spec.site"})
        assert await watcher.schemas.published(ResourceName("other.com", "v1", "others")) is None
        with pytest.raises(Unreachable):
            await watcher.schemas.poll()
        assert watcher.told == []

    with_upstream(control_plane, tmp_path, before, server=server)
    fault_proxy.refuse()
    with_upstream(control_plane, tmp_path, after, server=server)


def test_a_resource_that_nobody_publishes_is_asked_for_once_between_polls(
    control_plane: ControlPlane,
) -> None:
    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved)
        nobody = ResourceName("nobody.example.com", "v1", "things")
        for _ in range(3):
            assert await watcher.schemas.published(nobody) is None
        assert asked.asked == [("/openapi/v3/apis/nobody.example.com/v1", 404)]

    with_upstream(control_plane, None, run)


def test_it_polls_by_itself_when_it_is_woken(control_plane: ControlPlane) -> None:
    widgets = Widgets(control_plane)

    async def run(asked: Asked, journal: Journal, saved: Saved) -> None:
        watcher = Watcher(asked, journal, saved, name_of(widgets))
        await published(watcher, widgets)
        polling = asyncio.create_task(watcher.schemas.run())
        await asyncio.to_thread(widgets.change_schema, COLORED)
        while not watcher.told:
            watcher.schemas.link(True)
            await asyncio.sleep(0.1)
        polling.cancel()
        await asyncio.wait([polling])
        assert watcher.told == [frozenset({name_of(widgets)})]

    with_upstream(control_plane, None, run)
