"""The demo applies what examples/ says, with rounds of its own and the interpreter that runs it."""

import sys
from typing import Any

import pytest

from tools.demo.__main__ import main
from tools.demo.sedna import DEMO_MODES
from tools.demo.sedna.scenario import SCENARIOS
from tools.demo.sedna.workload import manifests

Json = dict[str, Any]


def _environment(template: Json) -> dict[str, str]:
    [container] = template["spec"]["containers"]
    return {it["name"]: it.get("value", "") for it in container["env"]}


def test_all_workers_of_the_federated_job_know_the_same_rounds() -> None:
    [job] = [it for it in manifests(7) if it["kind"] == "FederatedLearningJob"]
    templates = [job["spec"]["aggregationWorker"]["template"]]
    templates += [it["template"] for it in job["spec"]["trainingWorkers"]]
    assert [_environment(it)["ROUNDS"] for it in templates] == ["7"] * 3
    assert "AGG_BIND_IP" in _environment(templates[0])


def test_workers_of_both_jobs_run_in_the_interpreter_of_the_demo() -> None:
    applied = list(manifests(7))
    [job] = [it for it in applied if it["kind"] == "IncrementalLearningJob"]
    commands = [
        job["spec"][runner]["template"]["spec"]["containers"][0]["command"]
        for runner in ("trainSpec", "evalSpec", "deploySpec")
    ]
    assert [it[0] for it in commands] == [sys.executable] * 3
    assert {it["kind"] for it in applied} >= {"Dataset", "Model", "FederatedLearningJob"}


def test_a_mode_that_there_is_not_is_one_line_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--mode", "both"])
    assert ended.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    for mode in ("active-standby", "active-active", "relay", "shards"):
        assert mode in told


def test_each_mode_of_the_command_line_has_a_scenario() -> None:
    assert set(DEMO_MODES) == set(SCENARIOS)
