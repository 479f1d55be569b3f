"""The demo of GMs with shards as tables: the ring, who owns what, how far the jobs are."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.demo.sedna.shard_state import ShardState
from tools.demo.sedna.tables import jobs_table, lcs_table, table
from tools.harness.pods.gm import GmPod

# Characters of the longest text of each column; the last one gets the rest.
COLUMNS = {"GM": 7, "shards": 11, "moved to it": 11, "objects": 7, "valid for": 9, "reports": 8}
# Of GMs in the ring, by their number.
COLOURS = ("cyan", "green", "magenta", "yellow")


def shard_picture(state: ShardState) -> Sequence[RenderableType]:
    return (
        _gms(state),
        _ring(state),
        lcs_table(state.sedna),
        jobs_table(state.sedna),
        Text(f"▸ {state.sedna.runner.doing}", style="yellow"),
    )


def _gms(state: ShardState) -> Table:
    shown = table(COLUMNS, "LCs connected")
    for number, pod in enumerate(state.sedna.system.gms):
        if pod in state.spares:
            shown.add_row(pod.name, "to be added", style="dim")
        elif pod.name in state.sedna.absent:
            shown.add_row(pod.name, "gone", style="red")
        else:
            shown.add_row(pod.name, *_gm(state, pod), style=COLOURS[number])
    return shown


def _gm(state: ShardState, pod: GmPod) -> tuple[str, ...]:
    said = state.sedna.status_poller.gm(pod)
    if said is None or said["shards"] is None:
        return ("starting",)
    shards = said["shards"]
    leaving = f" -{len(shards['handingOver'])}" if shards["handingOver"] else ""
    return (
        f"{len(shards['owned'])}{leaving}",
        str(shards["moves"]),
        str(state.objects_of(pod)),
        f"{shards['remainingSeconds']:.1f} s",
        str(said["reports"]["stored"] + said["reports"]["folded"]),
        ", ".join(it["node"].partition(".")[0] for it in said["nodes"]),
    )


def _ring(state: ShardState) -> Text:
    """A digit for each shard, in the colour of its GM."""
    shown = Text("ring    ", no_wrap=True)
    for digit in state.drawn():
        shown.append(digit, style=COLOURS[int(digit)] if digit.isdecimal() else "red")
    return shown
