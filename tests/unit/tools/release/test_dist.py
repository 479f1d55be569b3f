"""What `make release` writes can be checked by sha256sum and is the same twice."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.unit.repository.checkout import ROOT
from tools.images import assemble
from tools.release.__main__ import SUMS, sums


def test_the_sums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts/values.yaml").write_text("a: 1\n", encoding="utf-8")
    (tmp_path / "relay.yaml").write_text("kind: Pod\n", encoding="utf-8")
    (tmp_path / SUMS).write_text(sums(tmp_path), encoding="utf-8")
    assert len(sums(tmp_path).splitlines()) == 2
    check = ["sha256sum", "--check", "--strict", "--quiet", SUMS]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0


def test_the_wheel_and_the_sdist_are_the_same_at_another_time(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        os.utime(ROOT / "lib/edge_sidecars/__init__.py")
    one, two = (sums(folder) for folder in folders)
    assert one == two
    assert [line.rpartition(".")[2] for line in one.splitlines()] == ["whl", "gz"]
    [wheel] = folders[0].glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        assert set(content.namelist()) >= _page_files()


def test_an_image_keeps_the_files_of_pages() -> None:
    """What it leaves out is what no import reaches, and these are opened by their names."""
    assert not {Path(it).suffix for it in _page_files()} & assemble._UNREAD


def _page_files() -> set[str]:
    library = ROOT / "lib"
    folder = library / "edge_sidecars/runtime/web/page/files"
    found = {str(it.relative_to(library)) for it in folder.iterdir()}
    assert len(found) > 5
    return found
