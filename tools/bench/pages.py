"""What ten open pages cost a process that had none: resident memory, beside what is promised."""

from tools.bench.pace import sleep
from tools.bench.process import MIB, memory
from tools.bench.progress import say
from tools.bench.samples import Result, Results
from tools.bench.table import Row, row
from tools.bench.target import never_above
from tools.harness.controlplane.clients.answer import ask
from tools.harness.pods.wire.open_pages import OpenPages

# MiB (issue: the page asked for, ten pages open).
MOST = 2.0
# Questions before, so that what any answer needs for the first time is no cost of the page.
QUESTIONS = 20
# Seconds until what a start needed for a moment is given back.
SETTLE = 5.0
# Of each page: one a second, where nothing changes.
DOCUMENTS = 10
SCENARIO = "pages-"


def cost(pid: int, port: int, component: str) -> float:
    """MiB more with ten pages open than before the first was asked for. `port`: where the page is;
    `component`: as its script is named."""
    for _ in range(QUESTIONS):
        answer = ask(port, "/status")
        if answer is None or answer.status != 200:
            raise ConnectionError(f"{component} does not answer /status")
    sleep(SETTLE)
    before = memory(pid).rss
    with OpenPages(port, component) as pages:
        pages.wait_for_documents(DOCUMENTS)
        return (memory(pid).rss - before) / MIB


def result(name: str, costs: list[float]) -> Result:
    """`name` for people, of whose pages they are."""
    say(f"ten pages of {name}: {', '.join(f'+{it:.2f}' for it in costs)} MiB")
    return Result(f"{SCENARIO}{name}", samples=[{"rss": it} for it in costs])


def rows(results: Results) -> list[Row]:
    target = never_above(MOST, "MiB")
    return [
        row(
            f"RSS of {name.removeprefix(SCENARIO)} with ten pages open: +",
            "MiB",
            results.values(name, "rss"),
            target=target,
        )
        for name in results.scenarios()
        if name.startswith(SCENARIO)
    ]
