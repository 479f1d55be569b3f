"""The documentation as a site: whole, without files of other hosts, readable on a phone."""

import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT
from tools.harness.controlplane.fixtures import lack

pytestmark = pytest.mark.long

# Seconds for a browser on a busy machine.
PATIENCE = 60
WIDTHS = (360, 1280)
# Pages in a frame of some width; the title of the frame's page says how wide its content is.
PROBE = """<!doctype html><title>-</title><body style="margin:0">
<iframe src="{page}" style="width:{width}px;height:800px;border:0"
 onload="document.title = this.contentDocument.documentElement.scrollWidth"></iframe>"""


def build(target: Path, *, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    return subprocess.run(
        [*command, "-d", str(target)],
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(target)
    assert done.returncode == 0, done.stderr
    return target


def test_no_page_loads_a_file_of_another_host(site: Path) -> None:
    linked = r'<link (?!rel="canonical)[^>]*"(https?:)'
    loaded = re.compile(rf'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)|{linked}')
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert loaded.findall(text) == [], page


@pytest.mark.parametrize(
    ("link", "what"),
    [
        ("[x](nowhere.md)", "nowhere.md"),
        ("[x](../reference/glossary.md#no-such-word)", "no-such-word"),
        ("[x](../../tools/nowhere.py)", "tools/nowhere.py"),
        ("![x](../images/nowhere.svg)", "images/nowhere.svg"),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, link: str, what: str) -> None:
    for name in ("docs", "examples", "tools/docs/mkdocs_site"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    config = tmp_path / "mkdocs.yml"
    shutil.copy(ROOT / "mkdocs.yml", config)
    page = tmp_path / "docs" / "explanation" / "modes.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\n{link}\n", encoding="utf-8")
    done = build(tmp_path / "site", config=config)
    assert done.returncode != 0
    [warning] = [it for it in done.stderr.splitlines() if it.startswith("WARNING") and what in it]
    assert "modes.md" in warning


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", ["", "reference/elector/", "how-to/ask-from-your-language/"])
def test_a_page_is_no_wider_than_its_window(
    site: Path, address: str, tmp_path: Path, page: str, width: int
) -> None:
    chromium = shutil.which("chromium") or lack("chromium is missing: run make test-deps")
    probe = f"probe-{page.strip('/').replace('/', '-')}-{width}.html"
    (site / probe).write_text(PROBE.format(page=f"/{page}", width=width), encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, f"{address}/{probe}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    found = re.search(r"<title>(\d+)</title>", done.stdout)
    assert found is not None, done.stdout[:500]
    assert int(found[1]) <= width
