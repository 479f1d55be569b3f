"""GM's and LC's demo as tables: who leads, who is connected where, how far the jobs are."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.demo.sedna.jobs import Progress
from tools.demo.sedna.state import SednaState
from tools.harness.pods.edge_node import EdgeNode
from tools.harness.pods.gm import GmPod

KEYS = "keys: q end"
# Characters of the longest text of each column; the last one gets the rest.
GM_COLUMNS = {"GM": 7, "role": 8, "valid for": 9, "API": 5, "reports": 8}
LC_COLUMNS = {"LC": 7, "link": 5, "connected to": 13, "objects": 8}
JOB_COLUMNS = {"job": 12, "stage": 16, "round": 8, "workers": 8}


def picture(state: SednaState) -> Sequence[RenderableType]:
    return (
        _gms(state),
        lcs_table(state),
        jobs_table(state),
        Text(f"▸ {state.runner.doing}", style="yellow"),
    )


def table(columns: dict[str, int], last: str) -> Table:
    shown = Table(box=None, pad_edge=False, expand=True)
    for title, width in columns.items():
        shown.add_column(title, width=width, no_wrap=True)
    shown.add_column(last, ratio=1, no_wrap=True, overflow="ellipsis")
    return shown


def _gms(state: SednaState) -> Table:
    shown = table(GM_COLUMNS, "LCs connected")
    for pod in state.system.gms:
        is_absent = pod.name in state.absent
        style = "red" if is_absent else "bold green" if state.leads(pod) else ""
        shown.add_row(pod.name, *_gm(state, pod), style=style)
    return shown


def _gm(state: SednaState, pod: GmPod) -> tuple[str, ...]:
    said = state.status_poller.gm(pod)
    if said is None:
        return "gone" if pod.name in state.absent else "starting", "", "", "", ""
    leader = said["leader"]
    is_leader = leader["isLeader"]
    return (
        "leader" if is_leader else "standby",
        f"{leader['remainingSeconds']:.1f} s" if is_leader else "",
        "up" if said["isLinkUp"] else "down",
        str(said["reports"]["stored"] + said["reports"]["folded"]),
        ", ".join(it["node"].partition(".")[0] for it in said["nodes"]),
    )


def lcs_table(state: SednaState) -> Table:
    shown = table(LC_COLUMNS, "reports that wait")
    for name, edge in state.system.edges.items():
        is_cut = name in state.cut
        row = (name, "cut" if is_cut else "up", *_lc(state, edge))
        shown.add_row(*row, style="red" if is_cut else "")
    return shown


def _lc(state: SednaState, edge: EdgeNode) -> tuple[str, str, str]:
    said = state.status_poller.lc(edge)
    if said is None:
        return "starting", "", ""
    waiting, oldest = said["reports"]["waiting"], said["reports"]["oldestSeconds"]
    age = f", the oldest for {oldest:.0f} s" if oldest is not None else ""
    return state.peer(edge) or "nobody", str(len(said["objects"])), f"{waiting}{age}"


def jobs_table(state: SednaState) -> Table:
    shown = table(JOB_COLUMNS, "precision")
    federated = state.jobs.federated()
    if federated.stage:
        shown.add_row("federated", *_job(federated, f"{federated.round}/{state.workload.rounds}"))
    incremental = state.jobs.incremental()
    if incremental.stage:
        shown.add_row("incremental", *_job(incremental, str(incremental.round)))
    return shown


def _job(found: Progress, round_: str) -> tuple[str, str, str, str]:
    was = "" if found.was is None else f", of the model before {found.was:.3f}"
    precision = "" if found.precision is None else f"{found.precision:.3f}{was}"
    return found.stage, round_, str(found.workers), precision
