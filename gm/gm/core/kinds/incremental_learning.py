"""IncrementalLearningJob: trained anew when enough samples have come, deployed if it is better."""

from collections.abc import Iterator

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    DataSource,
    HotUpdate,
    Merge,
    Mounted,
    Problem,
    Rule,
    SednaKind,
    Setting,
    Site,
    downloaded,
)
from gm.core.kinds import learning
from gm.core.kinds.environment import hard_example_mining, lc_server, of_job
from gm.core.tree import flag, mapping, number, part, text
from gm.core.validation import trigger_problems

_INITIAL = ("spec", "initialModel", "name")
_EVAL = ("spec", "evalSpec", "initialEvalModel", "name")
_DEPLOY = ("spec", "deploySpec", "model", "name")
# The CRD's default of pollPeriodSeconds.
_POLL_PERIOD = 60


def _train(site: Site) -> tuple[Setting, ...]:
    return (
        *learning.of_stage(site),
        downloaded("BASE_MODEL_URL", *_models(site)[:1]),
        Mounted("MODEL_URL", (learning.own(site, text(site.input, "outputDir")),)),
        learning.input_data(site, "TRAIN_DATASET_URL", learning.own(site, "").credential),
    )


def _eval(site: Site) -> tuple[Setting, ...]:
    credential = learning.own(site, "").credential or learning.dataset_of(site).credential
    return (
        *learning.of_stage(site),
        downloaded("MODEL_URLS", *_models(site)),
        learning.input_data(site, "TEST_DATASET_URL", credential),
    )


def _inference(site: Site) -> tuple[Setting, ...]:
    common: tuple[Setting, ...] = (
        *of_job(site),
        *hard_example_mining(site.part),
        lc_server(site),
        downloaded("MODEL_URL", site.model(*_DEPLOY)),
    )
    if not flag(site.part, "model", "hotUpdateEnabled"):
        return common
    period = number(site.part, "model", "pollPeriodSeconds", default=_POLL_PERIOD)
    return (*common, HotUpdate(period))


def _models(site: Site) -> tuple[DataSource, ...]:
    """A Model of the API is opened by its own Secret, what was trained by the job's."""
    known = {
        source.url: source
        for path in (_DEPLOY, _EVAL, _INITIAL)
        if (source := site.model(*path)).url
    }
    return tuple(known.get(url) or learning.own(site, url) for url in learning.input_models(site))


def _check(object_: Json) -> Iterator[Problem]:
    yield from learning.problems(object_)
    yield from trigger_problems(object_, ("spec", "deploySpec", "trigger"))
    model = mapping(object_, "spec", "deploySpec", "model")
    if part(model, "pollPeriodSeconds") is not None and number(model, "pollPeriodSeconds") < 1:
        yield Problem(
            "spec.deploySpec.model.pollPeriodSeconds", "is less than 1", "give at least 1"
        )


INCREMENTAL_LEARNING = SednaKind(
    resource=kinds.INCREMENTAL_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=learning.stage_workers(_inference, _train, _eval, is_initial=True),
    models=(_INITIAL, _DEPLOY),
    optional_models=(_EVAL,),
    told_models=(_INITIAL, _DEPLOY, _EVAL),
    datasets=(learning.DATASET,),
    merge=Merge.STAGE,
    check=_check,
)
