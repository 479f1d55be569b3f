"""Programs are built once, with the right commands, and taken from where the user says.

The Go toolchain here is a stand-in that writes down how it was called, since a real build takes
minutes; that the real one builds the real programs is what every integration test rests on.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.harness.controlplane import build

STAND_IN = f"""#!{sys.executable}
import json, os, pathlib, sys, time
calls = pathlib.Path(__file__).parent / "calls"
with calls.open("a") as file:
    file.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1:] == ["env", "GOVERSION"]:
    print("go" + os.environ["STAND_IN_VERSION"])
elif sys.argv[1:3] == ["mod", "download"]:
    print(json.dumps({{"GoMod": "/nowhere/go.mod"}}))
elif sys.argv[1:3] == ["mod", "edit"]:
    replaced = {{"Old": {{"Path": "k8s.io/api"}}, "New": {{"Path": "./staging/src/k8s.io/api"}}}}
    print(json.dumps({{"Replace": [replaced]}}))
elif sys.argv[1:3] == ["list", "-deps"]:
    print("k8s.io/api/core/v1")
elif sys.argv[1] == "build":
    time.sleep(0.2)
    if os.environ.get("STAND_IN_FAILS"):
        print("k8s.io/api/core/v1\\nx.go:1: syntax error", file=sys.stderr)
        sys.exit(1)
    print(pathlib.Path("go.mod").read_text(), file=calls.with_name("go.mod").open("a"))
    pathlib.Path(sys.argv[sys.argv.index("-o") + 1]).write_text("program")
else:
    sys.exit(f"unexpected call: {{sys.argv}}")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables with the stand-in in PATH and an empty cache."""
    go = tmp_path / "go"
    go.write_text(STAND_IN, encoding="utf-8")
    go.chmod(0o755)
    changed = {
        # Nothing else: this machine may have programs of a fitting version.
        "PATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "STAND_IN_VERSION": "1.99.0",
    }
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return kept | changed


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    """Runs build.py as a user does."""
    return subprocess.Popen(
        [sys.executable, str(build.__file__), *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_runs_at_once_build_each_program_once(
    environment: dict[str, str], tmp_path: Path
) -> None:
    runs = [start(environment) for _ in range(2)]
    outputs = [run.communicate() for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    paths = outputs[0][0].splitlines()
    assert paths == outputs[1][0].splitlines()
    assert [Path(path).name for path in paths] == list(build.PROGRAMS)
    assert all(Path(path).read_text(encoding="utf-8") == "program" for path in paths)
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert sum('"build"' in call for call in calls) == 4
    manifest = (tmp_path / "go.mod").read_text(encoding="utf-8")
    assert f"require k8s.io/kubernetes {build.KUBERNETES_VERSION}\n" in manifest
    staging = build.KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    assert f"replace k8s.io/api => k8s.io/api {staging}\n" in manifest
    assert f"require go.etcd.io/etcd/server/v3 {build.ETCD_VERSION}\n" in manifest


@pytest.mark.parametrize(("version", "is_built"), [("v1.37.9", False), ("v1.36.2", True)])
def test_a_program_in_path_is_used_where_its_minor_version_fits(
    environment: dict[str, str], tmp_path: Path, version: str, is_built: bool
) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\n[ "$*" = "version --client" ] && echo "Client Version: {version}"\n',
        encoding="utf-8",
    )
    kubectl.chmod(0o755)
    told, errors = (run := start(environment)).communicate()
    assert run.returncode == 0, errors
    assert (str(kubectl) not in told.splitlines()) is is_built


def test_another_release_of_kubernetes_is_built_of_its_own_modules(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run = start(environment, "--kubernetes", "v1.30.7")
    output, errors = run.communicate()
    assert run.returncode == 0, errors
    (path,) = map(Path, output.splitlines())
    assert not set(build.PROGRAMS) & {it.name for it in path.parent.iterdir()} - {path.name}
    assert path.name == "kube-apiserver"
    assert "v1.30.7" in path.parent.name
    manifest = (tmp_path / "go.mod").read_text(encoding="utf-8")
    assert "require k8s.io/kubernetes v1.30.7\n" in manifest
    assert "replace k8s.io/api => k8s.io/api v0.30.7\n" in manifest
    assert "gitVersion=v1.30.7" in (tmp_path / "calls").read_text(encoding="utf-8")


def test_what_is_no_release_of_kubernetes_is_one_line(environment: dict[str, str]) -> None:
    run = start(environment, "--kubernetes", "1.34")
    output, errors = run.communicate()
    assert run.returncode == 1
    assert output == ""
    (line,) = errors.splitlines()
    assert "'1.34'" in line
    assert "v1.34.4" in line


def test_a_failed_build_says_why_and_leaves_nothing_that_looks_built(
    environment: dict[str, str], tmp_path: Path
) -> None:
    run = start(environment | {"STAND_IN_FAILS": "1"})
    output, errors = run.communicate()
    assert run.returncode == 1
    assert output == ""
    assert "building kube-apiserver failed:\nx.go:1: syntax error" in errors
    assert not [path for path in (tmp_path / "cache").rglob("kube-apiserver") if path.is_file()]


def test_a_toolchain_that_is_too_old_is_passed_over(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", environment["PATH"])
    monkeypatch.setenv("STAND_IN_VERSION", "1.99.0")
    assert build.go_toolchain() == tmp_path / "go"
    monkeypatch.setenv("STAND_IN_VERSION", "1.25.9")
    assert "site-packages" in str(build.go_toolchain())


def test_kubebuilder_assets_win_for_what_they_contain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "etcd").touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert build.binary("etcd") == tmp_path / "etcd"
    assert build.find("kubectl") is None
