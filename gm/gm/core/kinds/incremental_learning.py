"""IncrementalLearningJob: trained anew when enough samples have come, deployed if it is better."""

from collections.abc import Iterator

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    HotUpdate,
    Merge,
    Mounted,
    Problem,
    Rule,
    SednaKind,
    Setting,
    Site,
    Source,
    WorkerSpec,
)
from gm.core.kinds.environment import hard_example_mining, lc_server, of_job
from gm.core.kinds.learning import (
    DATASET,
    dataset_of,
    input_data,
    input_models,
    of_stage,
    own,
    problems,
)
from gm.core.tree import flag, mapping, number, part, text
from gm.core.validation import trigger_problems

_INITIAL = ("spec", "initialModel", "name")
_EVAL = ("spec", "evalSpec", "initialEvalModel", "name")
_DEPLOY = ("spec", "deploySpec", "model", "name")
# The CRD's default of pollPeriodSeconds.
_POLL_PERIOD = 60


def _train(site: Site) -> tuple[Setting, ...]:
    return (
        *of_stage(site),
        Mounted("BASE_MODEL_URL", _models(site)[:1], is_downloaded=True),
        Mounted("MODEL_URL", (own(site, text(site.input, "outputDir")),)),
        input_data(site, "TRAIN_DATASET_URL", own(site, "").credential),
    )


def _eval(site: Site) -> tuple[Setting, ...]:
    credential = own(site, "").credential or dataset_of(site).credential
    return (
        *of_stage(site),
        Mounted("MODEL_URLS", _models(site), is_downloaded=True),
        input_data(site, "TEST_DATASET_URL", credential),
    )


def _inference(site: Site) -> tuple[Setting, ...]:
    common: tuple[Setting, ...] = (
        *of_job(site),
        *hard_example_mining(site.part),
        lc_server(site),
        Mounted("MODEL_URL", (site.model(*_DEPLOY),), is_downloaded=True),
    )
    if not flag(site.part, "model", "hotUpdateEnabled"):
        return common
    period = number(site.part, "model", "pollPeriodSeconds", default=_POLL_PERIOD)
    return (*common, HotUpdate(period))


def _models(site: Site) -> tuple[Source, ...]:
    """A Model of the API is opened by its own Secret, what was trained by the job's."""
    known = {
        source.url: source
        for path in (_DEPLOY, _EVAL, _INITIAL)
        if (source := site.model(*path)).url
    }
    return tuple(known.get(url) or own(site, url) for url in input_models(site))


def _check(object_: Json) -> tuple[Problem, ...]:
    return (*problems(object_), *_deploy_problems(object_))


def _deploy_problems(object_: Json) -> Iterator[Problem]:
    yield from trigger_problems(object_, ("spec", "deploySpec", "trigger"))
    model = mapping(object_, "spec", "deploySpec", "model")
    if part(model, "pollPeriodSeconds") is not None and number(model, "pollPeriodSeconds") < 1:
        yield Problem(
            "spec.deploySpec.model.pollPeriodSeconds", "is less than 1", "give at least 1"
        )


INCREMENTAL_LEARNING = SednaKind(
    resource=kinds.INCREMENTAL_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=(
        WorkerSpec(
            type="Inference",
            path=("spec", "deploySpec"),
            settings=_inference,
            stage="Deploy",
            is_initial=True,
            host_network=True,
            is_told=True,
        ),
        WorkerSpec(
            type="Train",
            path=("spec", "trainSpec"),
            settings=_train,
            stage="Train",
            host_network=True,
            restart_policy="OnFailure",
            is_told=True,
        ),
        WorkerSpec(
            type="Eval",
            path=("spec", "evalSpec"),
            settings=_eval,
            stage="Eval",
            host_network=True,
            restart_policy="OnFailure",
            is_told=True,
        ),
    ),
    models=(_INITIAL, _DEPLOY),
    optional_models=(_EVAL,),
    told_models=(_INITIAL, _DEPLOY, _EVAL),
    datasets=(DATASET,),
    merge=Merge.STAGE,
    check=_check,
)
