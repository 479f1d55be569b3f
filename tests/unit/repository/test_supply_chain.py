"""What others publish is named by content, so that it cannot change under its name."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.unit.repository.checkout import ROOT, tracked_files, tracked_texts
from tools.images import OWN_IMAGES
from tools.images.assemble import COMPONENTS

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
REQUIREMENTS = sorted((ROOT / "tools/requirements").glob("*.txt"))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda it: it.name)
def test_actions_are_named_by_commit_and_say_their_release(workflow: Path) -> None:
    text = workflow.read_text()
    used = re.findall(r"uses: (.+)", text)
    assert used
    for each in used:
        is_own = each.startswith("./")
        assert is_own or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each), each


def test_each_locked_package_has_a_hash_the_pip_of_nodes_too() -> None:
    assert "pip.txt" in {it.name for it in REQUIREMENTS}
    for file in REQUIREMENTS:
        joined = re.sub(r"\\\n\s*", " ", file.read_text())
        for line in joined.splitlines():
            name = line.partition("#")[0].strip()
            assert not name or "--hash=sha256:" in name, f"{file.name}: {name}"


# Writes down what it was run with; skopeo says what digest it pushed, docker that of both.
PUBLISHER = """#!/bin/sh
echo "$(basename "$0") $*" >> "$CALLS"
case "$(basename "$0") $*" in
"skopeo copy --preserve-digests --digestfile "*) echo "sha256:of-$4" | tr -d '\\n' > "$4" ;;
"docker buildx imagetools inspect "*) echo sha256:of-both ;;
esac
"""


def test_images_are_published_from_their_archives_and_signed_by_digest(tmp_path: Path) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["publish"]["steps"]
    [script] = [it["run"] for it in steps if it.get("name") == "Push and sign the images"]
    (tmp_path / "images").mkdir()
    names = ("elector-sidecar", "gm")
    for stem in (f"{name}-1.2.3-{machine}" for name in names for machine in ("amd64", "arm64")):
        for suffix in ("tar", "cdx.json"):
            (tmp_path / "images" / f"{stem}.{suffix}").touch()
    for program in ("skopeo", "docker", "cosign"):
        (tmp_path / program).write_text(PUBLISHER, encoding="utf-8")
        (tmp_path / program).chmod(0o755)
    subprocess.run(
        ["bash", "-e", "-c", script],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "CALLS": str(tmp_path / "calls"),
            "DIST": str(tmp_path),
            "VERSION": "1.2.3",
            "IMAGES": "registry.example/edge",
        },
        check=True,
    )
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    signed = [it.split()[-1] for it in calls if it.startswith("cosign ")]
    assert len(signed) == 3 * len(names)
    assert [it for it in signed if "@sha256:" not in it] == []
    for name in names:
        image = f"registry.example/edge/{name}"
        both = []
        for machine in ("amd64", "arm64"):
            stem = f"{name}-1.2.3-{machine}"
            [pushed] = [it for it in calls if f" oci-archive:{stem}.tar " in it]
            assert pushed.endswith(f" docker://{image}:1.2.3-{machine}")
            both.append(f"{image}@sha256:of-{stem}.digest")
            kind = f"--type cyclonedx --predicate {stem}.cdx.json"
            assert f"cosign attest --yes {kind} {both[-1]}" in calls
        joined = f"docker buildx imagetools create --tag {image}:1.2.3 {' '.join(both)}"
        assert joined in calls
        assert f"cosign sign --yes --recursive {image}@sha256:of-both" in calls
    assert not list((tmp_path / "images").glob("*.digest"))


def test_the_sums_of_a_release_are_signed_and_nothing_is_published_unasked() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text(encoding="utf-8"))[
        "jobs"
    ]
    publishes = re.compile(r"cosign sign|gh release create|skopeo copy|pypi-publish|docker/login")
    found = 0
    assert jobs["publish"]["permissions"]["id-token"] == "write"
    for step in jobs["publish"]["steps"]:
        if publishes.search(f"{step.get('run', '')} {step.get('uses', '')}"):
            found += 1
            assert step["if"] in ("env.IS_RELEASE == 'true'", "vars.PYPI == 'true'")
    assert found == 4
    scripts = "\n".join(it.get("run", "") for it in jobs["publish"]["steps"])
    assert scripts.index("cosign sign-blob") < scripts.index("gh release create")


def test_each_image_names_its_registry() -> None:
    """Else each machine's engine decides who serves it, which is often Docker Hub."""
    named = []
    for name, text in tracked_texts():
        if name.startswith(("manifests/", "examples/", "docs/")) or name == "README.md":
            found = re.findall(r"^[ -]*image: ([a-z][\w.:/-]*)$", text, re.M)
            named += [(name, it) for it in found]
    assert len(named) > 20
    unqualified = [it for it in named if not re.match(r"[\w-]+(\.[\w-]+)+(:\d+)?/", it[1])]
    assert unqualified == []


def test_an_image_of_ours_is_nowhere_named_without_its_registry() -> None:
    images = "|".join([*(it.image for it in COMPONENTS.values()), "keepalived", "examples"])
    unqualified = re.compile(rf"(?<![\w/.-])edge-sidecars/({images})(?![\w/-])")
    qualified = 0
    for name, text in tracked_texts():
        found = unqualified.search(text)
        assert found is None, f"{name} has {found and found[0]!r}"
        qualified += text.count(f"{OWN_IMAGES}/")
    assert qualified > 20


# Writes down where it was run and with what, and finds something in the first one.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $PWD $*" >> "$CALLS"
test "$(wc -l < "$CALLS")" -gt 1
"""


@pytest.mark.parametrize("step", ["Python packages", "Go modules"])
def test_the_audit_looks_at_each_lock_and_module_whatever_it_finds_in_one(
    step: str, tmp_path: Path
) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/audit.yml").read_text(encoding="utf-8"))
    [script] = [it["run"] for it in workflow["jobs"]["audit"]["steps"] if it.get("name") == step]
    for name in ("pip-audit", "go"):
        (tmp_path / name).write_text(STAND_IN, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    calls = tmp_path / "calls"
    done = subprocess.run(
        ["bash", "-e", "-c", script.replace("python -m pip install", ": ")],
        cwd=ROOT,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)},
        check=False,
    )
    assert done.returncode != 0
    told = calls.read_text(encoding="utf-8")
    if step == "Python packages":
        assert [line for line in told.splitlines() if " --strict " not in line] == []
        expected = [f"tools/requirements/{it.name}" for it in REQUIREMENTS]
    else:
        modules = [it for it in tracked_files() if it.name == "go.mod"]
        assert len(modules) > 5
        expected = [f"go {it.parent} run " for it in modules]
    assert [it for it in expected if it not in told] == []
    assert len(told.splitlines()) == len(expected)
