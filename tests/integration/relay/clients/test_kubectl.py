"""R1, R4, R9 with kubectl itself: online, cut off, and before a relay that started while it was."""

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.relay.place import Place
from tools.harness.peers.kubectl import TIMEOUT, Kubectl
from tools.harness.relay_objects import Contents, Widgets

# Seconds of an outage after which no client is asked to come again.
SETTLED = 3.0
MANIFEST = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: applied
data:
  key: "{value}"
"""


@pytest.fixture
def kubectl(shared: Place, contents: Contents) -> Iterator[Kubectl]:
    with Kubectl(shared.kubeconfig(), contents.namespace) as it:
        yield it


def names(output: str) -> list[str]:
    """First column of a table, without its head."""
    return [line.split()[0] for line in output.splitlines()[1:] if line]


def test_r9_kubectl_prints_tables(kubectl: Kubectl, contents: Contents) -> None:
    contents.configmap("a", key="value")
    contents.pod("p", node="n1")
    table = kubectl.run("get", "configmaps").expect()
    assert table.split() == ["NAME", "DATA", "AGE", "a", "1", table.split()[-1]]
    assert "n1" in kubectl.run("get", "pods", "-o", "wide").expect()
    assert {"configmap/a", "pod/p"} <= set(names(kubectl.run("get", "cm,pods").expect()))
    assert contents.namespace in kubectl.run("get", "serviceaccounts", "-A").expect()


def test_r9_kubectl_gets_objects_in_every_form(kubectl: Kubectl, contents: Contents) -> None:
    made = contents.configmap("a", labels={"x": "1"}, key="value")
    assert (
        kubectl.run("get", "configmap", "a", "-o", "json", "--show-managed-fields").json() == made
    )
    assert "key: value" in kubectl.run("get", "configmap", "a", "-o", "yaml").expect()
    said = kubectl.run("get", "configmaps", "-l", "x=1", "-o", "jsonpath={.items[*].metadata.name}")
    assert said.expect() == "a"
    said = kubectl.run("get", "cm", "--field-selector=metadata.name!=a", "-o", "name")
    assert said.expect() == ""
    assert "not found" in kubectl.run("get", "configmap", "nope").errors


def test_r9_kubectl_gets_more_than_one_page(kubectl: Kubectl, contents: Contents) -> None:
    made = contents.configmaps(12)
    said = kubectl.run("get", "configmaps", "--chunk-size=5", "-o", "name").expect()
    assert said.split() == [f"configmap/{name}" for name in made]


def test_r9_kubectl_describes(kubectl: Kubectl, contents: Contents) -> None:
    contents.pod("p", node="n1", labels={"x": "1"})
    said = kubectl.run("describe", "pod", "p").expect()
    assert "n1" in said
    assert "x=1" in said
    assert "example.com/main:1" in said


def test_r9_kubectl_watches(kubectl: Kubectl, contents: Contents) -> None:
    contents.configmap("a")
    with kubectl.running("get", "configmaps", "-w", "--output-watch-events") as it:
        it.wait_line(" a ")
        contents.configmap("b")
        assert it.wait_line(" b ").startswith("ADDED")
        contents.delete("configmaps", "b")
        assert " b " in it.wait_line("DELETED")
        assert it.is_running
    with kubectl.running("get", "configmaps", "--watch-only") as it:
        # Nothing tells that it has begun: a change is made until one is told.
        deadline = time.monotonic() + TIMEOUT
        while not it.lines:
            assert time.monotonic() < deadline, "nothing was told"
            contents.label("configmaps", "a", x=secrets.token_hex(4))
            it.pause()
        assert it.lines[0].startswith("NAME")


def test_r9_kubectl_waits_for_a_condition(kubectl: Kubectl, contents: Contents) -> None:
    contents.pod("p")
    with kubectl.running("wait", "pod/p", "--for=jsonpath={.status.phase}=Running") as it:
        contents.set_phase("p", "Running")
        it.wait_line("condition met")


@pytest.mark.parametrize("side", ["client", "server"])
def test_r9_kubectl_applies(kubectl: Kubectl, contents: Contents, side: str) -> None:
    flags = [f"--server-side={str(side == 'server').lower()}", "-f", "-"]
    for value in ("1", "2"):
        manifest = MANIFEST.format(value=value)
        kubectl.run("apply", *flags, stdin=manifest).expect()
        assert contents.get("configmaps", "applied")["data"] == {"key": value}
        said = kubectl.run("get", "cm", "applied", "-o", "jsonpath={.data.key}")
        assert said.expect() == value
        # Nothing to change: what apply compares with is not stale.
        diff = kubectl.run("diff", *flags, stdin=manifest)
        assert (diff.status, diff.output) == (0, "")


def test_r9_kubectl_creates_patches_labels_edits_and_deletes(
    kubectl: Kubectl, contents: Contents
) -> None:
    kubectl.run("create", "configmap", "a", "--from-literal=key=1").expect()
    kubectl.run("patch", "configmap", "a", "-p", '{"data":{"key":"2"}}').expect()
    kubectl.run("label", "configmap", "a", "x=1").expect()
    kubectl.run("annotate", "configmap", "a", "note=kept").expect()
    made = contents.get("configmaps", "a")
    assert made["data"] == {"key": "2"}
    assert made["metadata"]["labels"] == {"x": "1"}
    replaced = kubectl.run("get", "configmap", "a", "-o", "json").expect().replace('"2"', '"3"')
    kubectl.run("replace", "-f", "-", stdin=replaced).expect()
    assert contents.get("configmaps", "a")["data"] == {"key": "3"}
    # Deletes, and waits until a watch tells that it is gone.
    kubectl.run("delete", "configmap", "a", "--wait=true").expect()
    kubectl.run("delete", "configmaps", "--all").expect()
    assert contents.list("configmaps")["items"] == []


def test_r9_kubectl_discovers(kubectl: Kubectl, contents: Contents, widgets: Widgets) -> None:
    widgets.create(contents, "w", site="north")
    resources = kubectl.run("api-resources", "-o", "name").expect().split()
    assert {"configmaps", "pods", "deployments.apps", widgets.name} <= set(resources)
    assert "apps/v1" in kubectl.run("api-versions").expect()
    assert "containers" in kubectl.run("explain", "pod.spec").expect()
    assert "site" in kubectl.run("explain", f"{widgets.name}.spec").expect()
    assert "Server Version: v1.37" in kubectl.run("version").expect()
    assert names(kubectl.run("get", widgets.name).expect()) == ["w"]
    assert "north" in kubectl.run("get", widgets.name).expect()
    assert kubectl.run("auth", "can-i", "get", "pods").expect().strip() == "yes"


# ── cut off ──


@pytest.fixture(params=["asked-before", "never-asked"])
def warm(request: pytest.FixtureRequest) -> bool:
    """Whether the same kubectl has discovered while the link was up; else it starts without a
    cache of its own, and only the relay knows."""
    return bool(request.param == "asked-before")


def discovered(place: Place, namespace: str) -> Kubectl:
    """A kubectl that has used discovery and schemas, so that the relay has seen them."""
    it = Kubectl(place.kubeconfig(), namespace)
    it.run("api-resources").expect()
    it.run("version").expect()
    it.run("explain", "pod.spec").expect()
    it.run("get", "configmaps,pods").expect()
    it.run("get", "configmaps", "-o", "yaml").expect()
    return it


def ask_all(it: Kubectl) -> None:
    """What works without an upstream."""
    assert "a" in names(it.run("get", "configmaps").expect())
    assert it.run("get", "cm", "a", "-o", "jsonpath={.data.key}").expect() == "value"
    assert "key: value" in it.run("get", "configmap", "a", "-o", "yaml").expect()
    assert it.run("get", "configmaps", "-l", "x=1", "-o", "name").expect() == "configmap/a\n"
    assert "n1" in it.run("describe", "pod", "p").expect()
    assert "pods" in it.run("api-resources", "-o", "name").expect().split()
    assert "containers" in it.run("explain", "pod.spec").expect()
    assert "v1.37" in it.run("version").expect()


def make_known(place: Place, contents: Contents) -> None:
    contents.configmap("a", labels={"x": "1"}, key="value")
    contents.pod("p", node="n1")
    for resource in ("configmaps", "pods", "events"):
        query = {"resourceVersion": contents.version(resource)}
        place.caller().get(contents.path(resource), query).expect()


@pytest.mark.parametrize("black_hole", [False, True], ids=["refused", "black-hole"])
def test_r4_kubectl_works_while_cut_off(
    one_relay: Place, contents: Contents, black_hole: bool, warm: bool
) -> None:
    make_known(one_relay, contents)
    with discovered(one_relay, contents.namespace) as before:
        one_relay.cut(black_hole=black_hole)
        with Kubectl(one_relay.kubeconfig(), contents.namespace) as fresh:
            ask_all(before if warm else fresh)


def test_r6_kubectl_says_at_once_why_what_is_unknown_and_what_it_writes_has_to_wait(
    one_relay: Place, contents: Contents
) -> None:
    make_known(one_relay, contents)
    with discovered(one_relay, contents.namespace) as it, ThreadPoolExecutor() as pool:
        one_relay.cut()
        # From then on nothing is to be asked again, which client-go does ten times.
        time.sleep(SETTLED)
        began = time.monotonic()
        asked = pool.submit(it.run, "get", "services")
        written = pool.submit(it.run, "delete", "configmap", "a", "--wait=false")
        unknown, refused = asked.result(), written.result()
        # Asked ten times, it would be ten seconds.
        assert time.monotonic() - began < 5.0
    assert unknown.status != 0
    assert "No resources found" not in unknown.errors
    assert "not known here" in unknown.errors
    assert "refused" in unknown.errors
    assert refused.status != 0
    assert contents.get("configmaps", "a")


def test_r5_kubectl_works_before_a_relay_that_started_while_cut_off(
    one_relay: Place, contents: Contents
) -> None:
    make_known(one_relay, contents)
    with discovered(one_relay, contents.namespace):
        one_relay.cut()
    one_relay.relay.kill()
    one_relay.relay.start()
    with Kubectl(one_relay.kubeconfig(), contents.namespace) as fresh:
        ask_all(fresh)


def test_r4_a_kubectl_that_watches_stays_over_a_cut(one_relay: Place, contents: Contents) -> None:
    make_known(one_relay, contents)
    with (
        discovered(one_relay, contents.namespace) as it,
        it.running("get", "configmaps", "-w", "-o", "name") as watching,
    ):
        watching.wait_line("configmap/a")
        one_relay.cut()
        contents.configmap("b")
        assert watching.is_running
        one_relay.heal()
        watching.wait_line("configmap/b")


def test_the_kubeconfig_that_the_relay_prints_leads_to_it(
    one_relay: Place, contents: Contents, tmp_path: Path
) -> None:
    contents.configmap("a")
    path = tmp_path / "kubeconfig"
    path.write_text(one_relay.relay.command("kubeconfig"), encoding="utf-8")
    with Kubectl(path, contents.namespace) as it:
        assert it.run("get", "configmaps", "-o", "name").expect() == "configmap/a\n"
