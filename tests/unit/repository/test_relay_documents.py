"""The documents are true of relay-sidecar: flags, endpoints, metrics, messages, modules."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.runtime.web.listener_metrics import FIGURES
from relay_sidecar.access.admission import OpenedAccess, OwnAccess
from relay_sidecar.commands.kubeconfig import main as print_kubeconfig
from relay_sidecar.config.config import load
from relay_sidecar.config.preload import Preload
from relay_sidecar.core.token_request import BoundObjectReference, TokenRequestKey
from relay_sidecar.endpoint_view.view_status import EndpointViewStatus
from relay_sidecar.endpoint_view.view_status import document as view_document
from relay_sidecar.kept_tokens.feature import token_callers, token_row
from relay_sidecar.pool.feature import shared_row
from relay_sidecar.telemetry.status import (
    JournalStatus,
    NamedObject,
    Outage,
    RelayStatus,
    RestartStatus,
    StreamStatus,
    UpstreamLinkStatus,
)
from relay_sidecar.web.api import NEVER_KEPT
from relay_sidecar.web.listener import OwnEndpoints
from tests.unit.relay.test_metrics import unread_streams
from tests.unit.repository.checkout import MANIFESTS, ROOT, block, section
from tests.unit.repository.told import fields, firsts, told_fields

MANUAL = "docs/reference/relay.md"
PACKAGE = ROOT / "relay-sidecar" / "relay_sidecar"
SERVER = ("--server", "https://api.example")
TOKEN = TokenRequestKey(
    namespace="shop",
    service_account="default",
    service_account_uid="",
    audiences=("vault",),
    expiration_seconds=3607,
    bound_object_ref=BoundObjectReference(kind="Pod", api_version="v1", name="web-0", uid="1"),
    content_type="application/json",
)
ACCESS = OpenedAccess(
    OwnAccess(Address("127.0.0.1", 1)), rights=lambda _: ["get pods"], has_read=lambda _: True
)


def _status() -> RelayStatus:
    """Of a relay that has something of everything to tell."""
    stream = StreamStatus(
        resource="pods.v1.",
        namespace="",
        label_selector="",
        field_selector="",
        state="live",
        refusal="",
        objects=1,
        size_bytes=1,
        resource_version=1,
        age=0.0,
        watchers=0,
    )
    return RelayStatus(
        version="1",
        listeners=[dict.fromkeys(FIGURES, 0)],
        uptime=1.0,
        lack="",
        access="own",
        link=UpstreamLinkStatus(
            server="https://api.example",
            state="down",
            down_for=1.0,
            outages=[Outage(began=0.0, seconds=1.0)],
        ),
        journal=JournalStatus(directory="d", failure=None, note=None),
        streams=[stream],
        watchers=0,
        max_watchers=1,
        max_objects=1,
        restart=RestartStatus(
            rooms={"callers": token_callers([(TOKEN, "t")], ACCESS)},
            objects=[NamedObject(resource="csinodes.v1.storage.k8s.io", namespace="", name="e")],
        ),
        rooms={
            "tokens": [token_row(TOKEN)],
            "endpointView": view_document(
                EndpointViewStatus(
                    has_verdicts=True, silent=0, kept=0, changes=0, resource_version=1, watchers=0
                )
            ),
            "pool": {"streams": [shared_row(unread_streams(), Preload("pods", ""))]},
        },
    )


# ── what is told ──


def test_every_endpoint_is_told_and_no_other() -> None:
    never_asked: Any = None
    told = firsts(MANUAL, "Its own endpoints")
    assert told == OwnEndpoints(never_asked).routes.keys()


def test_every_field_of_the_status_is_told_and_no_other() -> None:
    assert told_fields(MANUAL) == set(fields(_status().document()))


def test_what_is_never_kept_is_told() -> None:
    text = section("docs/explanation/relay.md", "What is never kept")
    assert set(re.findall(r"`([a-z.]+\.k8s\.io)`", text)) == NEVER_KEPT


# ── the manifest ──


def _pod() -> dict[str, Any]:
    objects = yaml.safe_load_all(block(*MANIFESTS[1], "yaml"))
    deployment = next(found for found in objects if found["kind"] == "Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def _container(name: str) -> dict[str, Any]:
    pod = _pod()
    found: dict[str, Any]
    (found,) = (it for it in (*pod["initContainers"], *pod["containers"]) if it["name"] == name)
    return found


def test_the_manifests_arguments_are_accepted() -> None:
    relay = _container("relay")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "n"}
    config = load([text.replace("$(POD_NAMESPACE)", "n") for text in relay["args"]], environ)
    assert [one.namespace for one in config.preload] == ["n"]
    (data,) = relay["volumeMounts"]
    assert config.data_dir == Path(data["mountPath"])
    (port,) = relay["ports"]
    assert config.status_listen.port == port["containerPort"]
    assert not config.status_listen.is_loopback
    paths = firsts(MANUAL, "Its own endpoints")
    for probe in ("startupProbe", "livenessProbe"):
        assert relay[probe]["httpGet"]["path"] in paths
        assert relay[probe]["httpGet"]["port"] == port["name"]


def test_the_manifests_main_reads_the_kubeconfig_that_is_printed(tmp_path: Path) -> None:
    command, *arguments = _container("kubeconfig")["args"]
    assert command == "kubeconfig"
    main = _container("main")
    (named,) = (it["value"] for it in main["env"] if it["name"] == "KUBECONFIG")
    here = [text.replace(named, str(tmp_path / "kubeconfig")) for text in arguments]
    assert here != arguments
    assert print_kubeconfig(here, {}) == 0
    printed = yaml.safe_load((tmp_path / "kubeconfig").read_text(encoding="utf-8"))
    listen = load([*SERVER, *_container("relay")["args"][1:]], {}).listen
    assert printed["clusters"][0]["cluster"]["server"] == f"http://{listen}"


# ── the code ──


@pytest.mark.parametrize("package", ["core", "journal", "access"])
def test_a_package_names_each_of_its_modules(package: str) -> None:
    source = (PACKAGE / package / "__init__.py").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", ast.get_docstring(ast.parse(source)) or ""))
    modules = {path.stem for path in (PACKAGE / package).glob("*.py")} - {"__init__"}
    assert modules <= words
