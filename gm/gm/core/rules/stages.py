"""The stages of a learning job, as its conditions tell them.

              GM           LC reports      GM sees the pod                LC reports
    (S, Waiting) --ready--> (S, Ready) ---> (S, Starting|Running) --completed--> (S, Completed)
         └------------------------ failed, from LC or by the pod --------------> (S, Failed)

    Completed: the next of Train > Eval > Deploy is Waiting, after Deploy the next round's Train.
    Failed:    the next round's Train is Waiting, after a pause.

GM counts rounds. Guarantees: A report counts only for the stage and round that the job is in, so
that a late or repeated one changes nothing and opens nothing that is finished. What has no round
(Sedna's LCs) is held to be of the present one. Sedna: LC/managers, GM/controllers/*/upstream.go.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from edge_sidecars.sedna_api.core.api_object import Json
from edge_sidecars.sedna_api.core.file_url import is_below, places_inside
from edge_sidecars.sedna_api.core.kinds import INCREMENTAL_LEARNING_JOB
from gm.core.engine.conditions import COMPLETED, FAILED, READY, instant, left
from gm.core.engine.reconcile_context import ReconcileContext
from gm.core.tree import mapping, number, objects, part, text

TRAIN: Final = "Train"
EVAL: Final = "Eval"
DEPLOY: Final = "Deploy"
WAITING: Final = "Waiting"
STARTING: Final = "Starting"
RUNNING: Final = "Running"
# A stage that names what is not its job's.
FOREIGN_PATH: Final = "ForeignPath"
IN_FLIGHT: Final = (READY, STARTING, RUNNING)

_NEXT: Final = {TRAIN: EVAL, EVAL: DEPLOY, DEPLOY: TRAIN}
_STAGES: Final = {stage.lower(): stage for stage in _NEXT}
_TYPES: Final = {type_.lower(): type_ for type_ in (READY, COMPLETED, FAILED)}
# Where a job of Sedna's counted its rounds: the directory of a training's output.
_OUTPUT: Final = re.compile(r".*/train/([0-9]{1,9})/?", re.ASCII | re.DOTALL)
# Seconds between a failure and the next round, so that a worker that cannot run is not started
# without end: Sedna's queue begins with 10 s.
FAILURE_PAUSE: Final = 10.0
# Bounds the characters of foreign paths in a message.
_LONGEST_NAMED: Final = 300


def stage(context: ReconcileContext) -> str:
    return text(context.log.state, "stage")


def type_(context: ReconcileContext) -> str:
    return text(context.log.state, "type")


def round_(context: ReconcileContext) -> int:
    return number(context.log.state, "round")


def begin(context: ReconcileContext) -> None:
    """The first condition; of a job of Sedna's, the first that has a round."""
    if round_(context):
        return
    counted = max(_counted(context), default=0)
    is_between = type_(context) == WAITING and stage(context) in (EVAL, DEPLOY) and counted
    at = stage(context) if is_between else TRAIN
    _wait(context, at, counted if is_between else counted + 1)


def take(context: ReconcileContext, body: Json) -> str:
    """Let a report count. Why it does not, or ""."""
    at = _STAGES.get(text(body, "phase").lower())
    if at is None:
        return f"phase {text(body, 'phase')!r:.40} is no stage"
    reported = _TYPES.get(text(body, "status").lower())
    if reported is None:
        return f"status {text(body, 'status')!r:.40} is none of ready, completed, failed"
    counted = number(body, "round", default=round_(context))
    now_at, now_type, now_round = stage(context), type_(context), round_(context)
    if (at, counted) != (now_at, now_round):
        return f"{at} of round {counted}, but the job is at {now_at} of round {now_round}"
    if not _is_open(at, reported, now_type):
        return f"{at} of round {counted} cannot be {reported} after {now_type}"
    if reported == READY and not mapping(body, "input"):
        return f"{at} of round {counted} is ready without an input"
    if reported == COMPLETED and (foreign := _foreign_outputs(context, at, body)):
        fail(context, FOREIGN_PATH, foreign)
        return ""
    message = text(body, "message") or "reported by lc"
    data = _data(context, reported, body)
    # The one reason that LC has a word for.
    reason = FOREIGN_PATH if reported == FAILED and text(body, "reason") == FOREIGN_PATH else ""
    context.log.append(
        reported, reason=reason, message=message, stage=at, round_=counted, data=data
    )
    _tell(context, at, reported, message)
    return ""


def _foreign_outputs(context: ReconcileContext, at: str, body: Json) -> str:
    """Why a result is none: its worker names what is not its job's own, and what is named here is
    copied by LC, and mounted into the next worker. An evaluation may name the models that it was
    given, too: of its results, only numbers are used."""
    output = text(context.subject, "spec", "outputDir")
    given: set[str] = set()
    if at == EVAL and context.kind.resource is INCREMENTAL_LEARNING_JOB:
        for model in objects(input_of(context), "models"):
            given |= places_inside(text(model, "url"))
    named = [part(it, "url") for it in objects(body, "output", "models") if part(it, "url")]
    foreign = [
        it for it in named if not isinstance(it, str) or not (it in given or is_below(output, it))
    ]
    if not foreign:
        return ""
    listed = ", ".join(f"{each!r:.80}" for each in foreign)[:_LONGEST_NAMED]
    return f"a worker names {listed}: only what lies below spec.outputDir {output:.200} is its own"


def fail(context: ReconcileContext, reason: str, message: str) -> None:
    """The stage, for what GM sees."""
    context.log.append(
        FAILED, reason=reason, message=message, stage=stage(context), round_=round_(context)
    )
    _tell(context, stage(context), FAILED, message)


def move(context: ReconcileContext, to: str, *, reason: str = "", message: str = "") -> None:
    """To another condition of the same stage."""
    at = stage(context)
    if context.log.append(to, reason=reason, message=message, stage=at, round_=round_(context)):
        _tell(context, at, to, message)


def advance(context: ReconcileContext) -> None:
    """From what is finished to what is next."""
    if type_(context) == COMPLETED:
        at = stage(context)
        _wait(context, _NEXT.get(at, TRAIN), round_(context) + (at == DEPLOY))
    elif type_(context) == FAILED:
        pause = left(FAILURE_PAUSE, instant(context.log.state), context.now)
        if pause:
            context.again(pause)
        else:
            _wait(context, TRAIN, round_(context) + 1)


def input_of(context: ReconcileContext) -> Json:
    """What LC reported with the Ready of the present stage."""
    return mapping(_decoded(context.log.last(READY, stage=stage(context))), "input")


def output_models(condition: Json) -> list[Json]:
    """The models that a condition's data tells as output."""
    return list(objects(_decoded(condition), "output", "models"))


def _is_open(at: str, reported: str, now: str) -> bool:
    if reported == READY:
        return now == WAITING
    if reported == COMPLETED and at == DEPLOY:
        # LC found nothing to deploy, and never began.
        return now in (WAITING, *IN_FLIGHT)
    return now in IN_FLIGHT or (reported == FAILED and now == WAITING)


def _data(context: ReconcileContext, reported: str, body: Json) -> str:
    """LC reads both from the last Ready and Completed of each stage."""
    data = {key: value for key in ("input", "output") if (value := mapping(body, key))}
    if reported == COMPLETED and "input" not in data and type_(context) != WAITING:
        data |= {"input": given} if (given := input_of(context)) else {}
    return json.dumps(data, separators=(",", ":")) if data else ""


def _wait(context: ReconcileContext, at: str, counted: int) -> None:
    context.log.append(WAITING, stage=at, round_=counted)


def _tell(context: ReconcileContext, at: str, to: str, message: str) -> None:
    if to == STARTING:
        return
    note = f"{at} of round {round_(context)}: {to}"
    note += f" ({message})" if message else ""
    context.note(f"{at}{to}", note, is_warning=to == FAILED)


def _counted(context: ReconcileContext) -> Iterator[int]:
    for one in context.log.newest():
        if counted := number(one, "round"):
            yield counted
        directory = text(_decoded(one), "input", "outputDir")
        if text(one, "stage") == TRAIN and (found := _OUTPUT.fullmatch(directory)):
            yield int(found[1])


def _decoded(condition: Json) -> object:
    try:
        return json.loads(text(condition, "data") or "{}")
    except (ValueError, RecursionError):
        return {}
