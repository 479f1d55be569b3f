"""What `make release` writes can be checked by sha256sum and is the same twice."""

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.repository.checkout import ROOT
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
