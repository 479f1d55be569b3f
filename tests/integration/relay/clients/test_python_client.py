"""R1 and R4 with the official Python client: lists, writes, watches, its informer, its dynamic
client."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch
from kubernetes.informer import SharedInformer

from tests.integration.relay.place import Place
from tools.harness.pods.observers.observer import wait_for
from tools.harness.relay_objects import Contents, Widgets

SOON = 20.0


def api_client(place: Place) -> Any:
    """Of its own, not the module's default."""
    return config.new_client_from_config(str(place.kubeconfig()))


@pytest.fixture
def core(shared: Place) -> Iterator[Any]:
    with api_client(shared) as it:
        yield client.CoreV1Api(it)


def test_r1_the_python_client_lists_pages_and_reads(core: Any, contents: Contents) -> None:
    names = contents.configmaps(7)
    space = contents.namespace
    found = core.list_namespaced_config_map(space)
    assert [item.metadata.name for item in found.items] == names
    paged: list[str] = []
    token = None
    while True:
        page = core.list_namespaced_config_map(space, limit=3, _continue=token)
        paged += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert paged == names
    at_any = core.list_namespaced_config_map(space, resource_version="0")
    assert set(names[:1]) <= {item.metadata.name for item in at_any.items}
    assert core.read_namespaced_config_map(names[0], space).metadata.name == names[0]


def test_r9_the_python_client_writes(core: Any, contents: Contents) -> None:
    space = contents.namespace
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"key": "0"})
    core.create_namespaced_config_map(space, body)
    core.patch_namespaced_config_map("a", space, {"data": {"key": "1"}})
    found = core.read_namespaced_config_map("a", space)
    assert found.data == {"key": "1"}
    found.data = {"key": "2"}
    core.replace_namespaced_config_map("a", space, found)
    with pytest.raises(client.ApiException, match="Conflict") as conflict:
        core.replace_namespaced_config_map("a", space, found)
    assert conflict.value.status == 409
    core.delete_namespaced_config_map("a", space)
    with pytest.raises(client.ApiException) as missing:
        core.read_namespaced_config_map("a", space)
    assert missing.value.status == 404


def test_r1_the_python_client_watches(core: Any, contents: Contents) -> None:
    space = contents.namespace
    contents.configmap("a")
    listed = core.list_namespaced_config_map(space)
    watcher = watch.Watch()
    stream = watcher.stream(
        core.list_namespaced_config_map,
        space,
        resource_version=listed.metadata.resource_version,
        timeout_seconds=60,
    )
    contents.configmap("b")
    contents.delete("configmaps", "a")
    told = []
    for event in stream:
        told.append((event["type"], event["object"].metadata.name))
        if len(told) == 2:
            watcher.stop()
    assert told == [("ADDED", "b"), ("DELETED", "a")]


def test_r1_the_dynamic_python_client_finds_custom_resources(
    shared: Place, contents: Contents, widgets: Widgets
) -> None:
    widgets.create(contents, "w", site="north")
    with api_client(shared) as it:
        found = dynamic.DynamicClient(it).resources.get(
            api_version=widgets.api_version, kind="Widget"
        )
        [item] = found.get(namespace=contents.namespace).items
        assert (item.metadata.name, item.spec.site) == ("w", "north")


class Cache:
    """An informer of ConfigMaps and what its handlers were told."""

    def __init__(self, core: Any, namespace: str) -> None:
        self.informer = SharedInformer(core.list_namespaced_config_map, namespace=namespace)
        self.told: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        for kind in ("ADDED", "MODIFIED", "DELETED"):
            self.informer.add_event_handler(kind, self._note(kind))

    def _note(self, kind: str) -> Callable[[Any], None]:
        def note(item: Any) -> None:
            with self._lock:
                self.told.append((kind, item.metadata.name))

        return note

    def wait(self, *names: str) -> None:
        """Until its cache holds exactly these."""
        expected = {*names}
        wait_for(lambda: self.names() == expected, timeout=SOON, what=f"{expected}")

    def names(self) -> set[str]:
        return {item.metadata.name for item in self.informer.cache.list()}


def test_r4_the_python_informer_goes_on_after_a_cut(
    place: Place, contents: Contents, caplog: pytest.LogCaptureFixture
) -> None:
    # Its complaints about a direct cut are none of ours.
    caplog.set_level(logging.CRITICAL, logger="kubernetes")
    once = [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("MODIFIED", "b"), ("ADDED", "c")]
    contents.configmap("a")
    with api_client(place) as it:
        cache = Cache(client.CoreV1Api(it), contents.namespace)
        cache.informer.start()
        try:
            cache.wait("a")
            contents.configmap("b")
            cache.wait("a", "b")
            place.cut()
            contents.delete("configmaps", "a")
            contents.label("configmaps", "b", x="1")
            place.heal()
            cache.wait("b")
            contents.configmap("c")
            cache.wait("b", "c")
            # It is in the cache before its handlers hear of it.
            wait_for(lambda: len(cache.told) >= len(once), timeout=SOON, what=f"{once}")
        finally:
            cache.informer.stop()
    assert cache.told == once
