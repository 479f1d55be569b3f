"""What was measured before an end is reported, and the exit status says what came of it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
# Measures one row that is met or not, then waits or ends.
BENCHMARK = """
import signal, sys
from contextlib import nullcontext
from tools.bench.runner import Bench, main
from tools.bench.samples import Result
from tools.bench.table import Heads, row
from tools.bench.target import at_most

out, is_met, ends = sys.argv[1], sys.argv[2] == "met", sys.argv[3] == "ends"

def measured(world, options):
    yield Result("a row", samples=[{"value": 1.0}])
    print("measured", flush=True)
    if not ends:
        signal.pause()

def rows(results, options):
    values = results.values("a row", "value")
    return [row("a row", "s", values, target=at_most(2.0 if is_met else 0.5, "s"))]

bench = Bench(
    "", {"runs": (1, "")}, {"one": measured}, nullcontext, rows, Heads("ours"),
    notes=lambda results: ["a note"], facts=lambda: {"fact": 1},
)
sys.exit(main("test", bench, ["--out", out]))
"""


def benchmark(out: Path, *how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BENCHMARK, str(out), *how]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("result", "status"), [("met", 0), ("missed", 1)])
def test_the_exit_status_tells_whether_every_target_was_reached(
    tmp_path: Path, result: str, status: int
) -> None:
    with benchmark(tmp_path / "new" / "out.json", result, "ends") as process:
        said, _ = process.communicate()
    assert process.returncode == status
    assert f"\n{1 - status} of 1 targets reached\n" in said
    document = json.loads((tmp_path / "new" / "out.json").read_text())
    assert [row["is_met"] for row in document["rows"]] == [result == "met"]
    assert document["results"][0]["samples"] == [{"value": 1.0}]
    assert document["fact"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_measured_before_a_signal_is_reported(
    tmp_path: Path, number: signal.Signals
) -> None:
    with benchmark(tmp_path / "out.json", "met", "waits") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "measured\n"
        process.send_signal(number)
        said, _ = process.communicate()
    assert process.returncode == 130
    assert "\n\na note\n" in said
    assert len(json.loads((tmp_path / "out.json").read_text())["rows"]) == 1
