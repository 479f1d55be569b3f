"""R1, R3: when a CRD's published schema changes, nobody is left with objects of the old one."""

from tests.integration.relay.place import Place
from tests.integration.relay.watched import Watched, wait_equal
from tools.harness.peers.informers import InformerProcess
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.wire.caller import Parameters
from tools.harness.relay_objects import Contents, Widgets

ANY: Parameters = {"resourceVersion": "0"}
LONG: Parameters = {"timeoutSeconds": 120}
# Seconds: the schema is looked at now and then.
CHANGED = 90.0
# With a default that is not stored: every object that is read has it, at its old version.
PROPERTIES = {
    "site": {"type": "string"},
    "size": {"type": "integer"},
    "color": {"type": "string", "default": "green"},
}


def test_r1_after_a_schema_change_objects_are_those_of_the_new_schema(
    relayed: Place, contents: Contents
) -> None:
    widgets = Widgets(relayed.plane)
    widgets.create(contents, "w", site="north")
    path = contents.path(widgets.resource)
    version = contents.version(widgets.resource)
    caller = relayed.caller()
    caller.get(path, {"resourceVersion": version}).expect()
    with caller.watch(path, {**LONG, "resourceVersion": version}) as watching:
        widgets.change_schema(PROPERTIES)

        def is_new() -> bool:
            reply = caller.get(path, ANY)
            if reply.status == 429:  # upstream's own, "storage is (re)initializing"
                return False
            [item] = reply.expect()["items"]
            return bool(item["spec"].get("color") == "green")

        wait_for(is_new, timeout=CHANGED, what="the default of the new schema", interval=0.2)
        # The watcher cannot be told of a change without a new version: it has to list again.
        watching.wait_ended(timeout=CHANGED)
        assert watching.seen[-1].object["code"] == 410
    one = caller.get(f"{path}/w", ANY).expect()
    assert one["spec"]["color"] == "green"
    relayed.cut()
    assert caller.get(f"{path}/w").expect()["spec"]["color"] == "green"


def test_r1_informers_end_with_objects_of_the_new_schema(
    relayed: Place, contents: Contents
) -> None:
    widgets = Widgets(relayed.plane)
    for number in range(5):
        widgets.create(contents, f"w-{number}", site="north")
    watched = [
        Watched("dynamic", widgets.resource, contents.namespace),
        Watched("dynamic", widgets.resource, contents.namespace, field_selector="spec.site=north"),
    ]
    specs = [each.spec for each in watched]
    with InformerProcess(relayed.kubeconfig(), specs) as informers:
        wait_equal(informers, watched, relayed)
        widgets.change_schema(PROPERTIES)
        path = contents.path(widgets.resource)

        def is_in_force() -> bool:
            reply = relayed.cloud.get(path)
            items = reply.expect()["items"] if reply.status != 429 else []
            return {each["spec"].get("color") for each in items} == {"green"}

        wait_for(is_in_force, timeout=CHANGED, what="the new schema in the cloud", interval=0.2)
        with InformerProcess(relayed.plane.admin_kubeconfig(), specs) as direct:
            wait_equal(direct, watched, relayed)
            truth = [each.content_hash for each in direct.states(content=True)]
        wait_for(
            lambda: [each.content_hash for each in informers.states(content=True)] == truth,
            timeout=CHANGED,
            what="the contents that stand in the cloud",
            interval=0.2,
        )
        informers.check()


def test_r3_a_field_that_becomes_selectable_can_be_selected(
    one_relay: Place, contents: Contents
) -> None:
    widgets = Widgets(one_relay.plane, selectable=())
    widgets.create(contents, "w1", site="north")
    widgets.create(contents, "w2", site="south")
    path = contents.path(widgets.resource)
    caller = one_relay.caller()
    caller.get(path, {"resourceVersion": contents.version(widgets.resource)}).expect()
    selector: Parameters = {**ANY, "fieldSelector": "spec.site=south"}
    assert caller.get(path, selector).status == 400
    widgets.select((".spec.site",))
    wait_for(
        lambda: caller.get(path, selector).status == 200,
        timeout=CHANGED,
        what="the new field",
        interval=0.2,
    )
    assert caller.get(path, selector).names == ["w2"]


def test_r1_of_a_crd_that_was_deleted_nothing_is_left(one_relay: Place, contents: Contents) -> None:
    widgets = Widgets(one_relay.plane)
    widgets.create(contents, "w", site="north")
    path = contents.path(widgets.resource)
    caller = one_relay.caller()
    version = contents.version(widgets.resource)
    caller.get(path, {"resourceVersion": version}).expect()
    with caller.watch(path, {**LONG, "resourceVersion": version}) as watching:
        # To a watch that comes after the deletion kube-apiserver says 404, and the relay 410 to
        # those that it has accepted before: its own is to be open.
        wait_for(lambda: is_live(one_relay, widgets), timeout=CHANGED, what="its own watch")
        widgets.delete()
        watching.wait_for(lambda it: ("DELETED", "w") in it.told(), what="the deletion")

    def is_gone() -> bool:
        return {caller.get(path, query).status for query in ({}, ANY)} == {404}

    wait_for(is_gone, timeout=CHANGED, what="not found", interval=0.2)


def is_live(place: Place, widgets: Widgets) -> bool:
    streams = place.relay.status()["streams"]
    return {"live"} == {each["state"] for each in streams if each["resource"] == widgets.resource}
