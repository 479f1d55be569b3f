"""The table of the images names exactly what each component imports of the library."""

import re

import grimp
import pytest

from tests.unit.repository.checkout import document
from tools.images.__main__ import lock
from tools.images.assemble import COMPONENTS, LIBRARY

PACKAGES = [LIBRARY, *(it.package for it in COMPONENTS.values())]


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """By component, the packages of the library that it imports, directly or by others."""
    graph = grimp.build_graph(*PACKAGES)
    found = {}
    for name, it in COMPONENTS.items():
        modules = graph.find_upstream_modules(it.package, as_package=True)
        found[name] = {parts[1] for each in modules if (parts := each.split("."))[0] == LIBRARY}
    return found


@pytest.mark.parametrize("component", COMPONENTS)
def test_an_image_has_what_its_component_imports(
    imports: dict[str, set[str]], component: str
) -> None:
    named = {*COMPONENTS[component].library}
    # The library's own modules import one another for the components that use them.
    assert named == imports[component]


def test_the_build_context_has_what_the_dockerfile_copies() -> None:
    copied = re.findall(
        r"^COPY ([a-z-]+/[a-z_]+) packages/", document("tools/images/Dockerfile"), re.M
    )
    assert {it.package for it in COMPONENTS.values()} <= {it.split("/")[1] for it in copied}
    assert {f"!{it}" for it in copied} <= set(document(".dockerignore").splitlines())


@pytest.mark.parametrize(
    ("component", "package"),
    [
        ("elector", "opentelemetry-sdk"),
        ("elector", "opentelemetry-exporter-otlp-proto-http"),
        ("relay", "opentelemetry-sdk"),
        ("relay", "opentelemetry-exporter-otlp-proto-http"),
        ("relay", "pycryptodome"),
    ],
)
def test_an_image_has_what_its_flags_and_variables_import(component: str, package: str) -> None:
    """OTEL_EXPORTER_OTLP_ENDPOINT and --keep-secrets."""
    assert f"\n{package}==" in lock(component).read_text(encoding="utf-8")
