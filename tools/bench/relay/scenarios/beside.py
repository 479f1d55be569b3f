"""What a request waits beside lists of others: reads at version 0, and a probe of /livez.

Guarantees: alone and beside are measured one right after the other, in turn which is first, over
the same relay and while the same updates go on.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from tools.bench.progress import say
from tools.bench.relay.load import LoadFailed
from tools.bench.relay.world import World, at
from tools.bench.runner import Options
from tools.bench.samples import OURS, Result
from tools.harness.pods.relay import RelayProcess
from tools.harness.relay_objects import Contents, Widgets

PODS = 1000
OTHERS = 1000
LISTS_PER_SECOND = 5.0
LISTERS = 4


@dataclass(frozen=True)
class Question:
    """`asked` of the relay, while each of `lists` is listed by `clients` without a version, at most
    `rate` times a second each (0: as fast as it is answered)."""

    name: str
    asked: Sequence[str]
    lists: str
    items: int
    clients: int
    rate: float


def beside(world: World, options: Options) -> list[Result]:
    results = []
    with world.relay() as relay:
        for question in _questions(world, relay):
            result = Result(f"beside-{question.name}", OURS)
            for run in range(options.runs):
                try:
                    result.samples.append(_measured(world, options, relay, question, run))
                except LoadFailed as error:
                    result.failures.append(str(error))
                    say(f"{result.scenario} FAILED: {error}")
            for sample in result.samples:
                said = " ".join(f"{key}={value:.4g}" for key, value in sample.items())
                say(f"{result.scenario}: {said}")
            results.append(result)
    return results


def _questions(world: World, relay: RelayProcess) -> list[Question]:
    pods, others = world.pods(PODS), world.pods(OTHERS, purpose="others")
    lists = others.path, OTHERS, 1, LISTS_PER_SECOND
    get = [*at(relay), f"--path={pods.path}/pod-00000?resourceVersion=0"]
    lister = [*at(relay), f"--path={pods.any_version}", f"--expect={PODS}"]
    livez = f"--server=http://127.0.0.1:{relay.status_port}"
    widgets = Widgets(world.plane)
    contents = Contents(world.plane, world.plane.create_namespace("widgets"))
    for number in range(OTHERS):
        widgets.create(contents, f"widget-{number:04}", site="x" * 1000)
    return [
        Question("get", get, *lists),
        Question("list", lister, *lists),
        Question(
            "livez",
            [livez, "--path=/livez", "--accept=text/plain"],
            contents.path(widgets.resource),
            OTHERS,
            LISTERS,
            0.0,
        ),
    ]


def _measured(
    world: World, options: Options, relay: RelayProcess, question: Question, run: int
) -> dict[str, float]:
    sample = {}
    pods = world.pods(PODS)
    world.load.run("first", *at(relay), f"--path={pods.any_version}", f"--expect={PODS}")
    for is_beside in (False, True) if run % 2 else (True, False):
        with ExitStack() as stack:
            if is_beside:
                flags = [f"--path={question.lists}", f"--expect={question.items}"]
                flags += [f"--clients={question.clients}", f"--rate={question.rate}"]
                flags += [f"--seconds={options.seconds * 2}"]
                listing = stack.enter_context(world.load.prepared("fetch", *at(relay), *flags))
                listing.go()
            report = world.load.run("fetch", *question.asked, f"--seconds={options.seconds}")
        sample["beside_p99_ms" if is_beside else "alone_p99_ms"] = report["latency"]["p99"]
    return sample
