"""GitHub's workflows: they are well formed, and what tests a change is `.ci/run` alone."""

import subprocess
import tomllib

import yaml

from tests.integration.repository.actionlint import actionlint_binary
from tests.unit.repository.checkout import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"


def test_actionlint_finds_nothing() -> None:
    files = sorted(WORKFLOWS.iterdir())
    assert files
    # Not its look at shell scripts and Python, which depends on what is installed.
    command = [str(actionlint_binary()), "-shellcheck=", "-pyflakes=", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_change_is_tested_by_ci_run_and_nothing_else() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "ci.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands == ["sudo --preserve-env=CI,KUBERNETES,PYTHON bash .ci/run"]
    # An interpreter to run it with, and what keeps the pictures that it leaves.
    actions = {step["uses"].partition("@")[0] for step in steps if "uses" in step}
    assert actions == {"actions/checkout", "actions/setup-python", "actions/upload-artifact"}


def test_a_change_is_tested_with_the_oldest_python_and_older_api_servers() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "ci.yml").read_text(encoding="utf-8"))
    rows = workflow["jobs"]["test"]["strategy"]["matrix"]["include"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    whole = [it["python"] for it in rows if "kubernetes" not in it]
    assert f">={whole[0]}" == project["project"]["requires-python"]
    assert whole[-1] == "3.13"
    others = [it["kubernetes"] for it in rows if "kubernetes" in it]
    assert [it.rpartition(".")[0] for it in others] == ["v1.36", "v1.34"]


def test_a_release_is_published_only_if_it_passes_the_same_tests() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "publish.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    assert jobs["ci"] == {"uses": "./.github/workflows/ci.yml"}
    assert {it["needs"] for name, it in jobs.items() if name != "ci"} == {"ci"}
