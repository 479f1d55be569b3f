"""The documents are true: commands, flags, paths, tests and manifests that they name exist."""

import functools
import re

import pytest
import yaml

from elector_sidecar.config.config import load
from elector_sidecar.core.timing import Timing
from elector_sidecar.web.endpoints import FENCING_TOKEN_HEADER, PROBE_PATHS, VALID_UNTIL_HEADER
from tests.unit.repository.checkout import DOCUMENTS, MANIFESTS, ROOT, block, document, section
from tools.demo.elector.pod import LEASE, RULES


def _targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", document("Makefile"), re.M))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_make_target_and_script_that_is_named_exists(name: str) -> None:
    text = document(name)
    assert set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.M)) <= _targets()
    for script in re.findall(r"(?:tools/)?\bscripts/[a-z]+\b", text):
        assert (ROOT / script).is_file(), script


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", document(name)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        file = folder / path if path else ROOT / name
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file.read_text(encoding="utf-8")), target


def _anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_test_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"\btest_[a-z0-9_]+\b", document(name)))
    assert named <= _defined_tests()


@functools.cache
def _defined_tests() -> frozenset[str]:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    return frozenset(test for text in sources for test in re.findall(r"def (test_\w+)\(", text))


@pytest.mark.parametrize(
    ("letter", "last", "name"),
    [
        ("P", 11, "docs/explanation/election.md"),
        ("R", 9, "docs/explanation/relay.md"),
    ],
)
def test_every_promise_has_tests_of_its_number(letter: str, last: int, name: str) -> None:
    numbers = re.findall(rf"^\| {letter}(\d+) \| .+ \|$", document(name), re.M)
    assert numbers == [str(number) for number in range(1, last + 1)]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    for number in numbers:
        start = f"def test_{letter.lower()}{number}_"
        assert any(start in text for text in sources), f"{letter}{number}"


def test_every_path_of_the_api_is_in_the_table_and_no_other() -> None:
    rooms = ("web", "shards")
    source = "".join(document(f"elector-sidecar/elector_sidecar/{it}/endpoints.py") for it in rooms)
    routes = set(re.findall(r'^\s+"(/[a-z]*)": \("(?:GET|POST)"', source, re.M))
    told = set(
        re.findall(r"`(?:GET|POST) (/[a-z]*)`", section("docs/reference/elector.md", "HTTP"))
    )
    assert routes == told
    assert routes >= PROBE_PATHS


def test_headers_and_probe_paths_are_told_by_name() -> None:
    text = document("docs/reference/elector.md")
    assert VALID_UNTIL_HEADER in text
    assert FENCING_TOKEN_HEADER in text
    row = next(line for line in text.splitlines() if line.startswith("| `--probe-listen`"))
    assert set(re.findall(r"`(/[a-z]+)`", row)) == PROBE_PATHS


@pytest.mark.parametrize(
    ("column", "timing"),
    list(enumerate((Timing(), Timing(6.0, 1.0, 2.0), Timing(60.0, 10.0, 5.0)))),
)
def test_the_table_of_timings_is_computed(column: int, timing: Timing) -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section("docs/reference/elector.md", "Timing").splitlines()
        if line.startswith("| ")
    ]
    told = {row[0]: row[column + 1] for row in rows}
    tolerances = timing.tolerances()

    def seconds(name: str) -> float:
        return float(told[name].removesuffix(" s"))

    assert seconds("a write proves the lead for") == pytest.approx(timing.validity)
    assert tolerances["api_outage_ridden_out"] == (
        f"{seconds('API server away without a change of leader'):.2f}s"
    )
    crash = "takeover after the crash of a whole pod, after its last renewal"
    assert tolerances["takeover_after_crash"].startswith(f"{seconds(crash):.2f}s")


def _manifest() -> dict[str, dict[str, object]]:
    text = block(*MANIFESTS[0], "yaml")
    return {found["kind"]: found for found in yaml.safe_load_all(text)}


def test_the_role_is_the_one_with_which_the_demo_runs() -> None:
    rules = yaml.safe_load(yaml.safe_dump(_manifest()["Role"]["rules"]))
    for rule in rules:
        if "resourceNames" in rule:
            rule["resourceNames"] = [LEASE]
    assert rules == RULES


def test_the_sidecars_arguments_are_accepted() -> None:
    deployment = yaml.safe_load(yaml.safe_dump(_manifest()["Deployment"]))
    (sidecar,) = deployment["spec"]["template"]["spec"]["initContainers"]
    environ = {"POD_NAME": "my-controller-0", "POD_NAMESPACE": "default"}
    environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    config = load(sidecar["args"], environ, hostname="host")
    assert config.release_on_term
    assert config.lease == "my-controller"
    assert config.probe_listen is not None
    (port,) = sidecar["ports"]
    assert config.probe_listen.port == port["containerPort"]
    for probe in ("readinessProbe", "livenessProbe"):
        asked = sidecar[probe]["httpGet"]
        assert asked["path"] in PROBE_PATHS
        assert asked["port"] == port["name"]
