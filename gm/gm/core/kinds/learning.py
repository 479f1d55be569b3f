"""Learning jobs, which go from stage to stage: train, evaluate, deploy.

IncrementalLearningJob: trained anew when enough samples have come, deployed if it is better.
LifelongLearningJob: the same with a knowledge base that grows each round.
"""

import posixpath
from collections.abc import Callable, Iterator
from functools import partial

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
    Value,
    WorkerSpec,
    downloaded,
)
from gm.core.kinds.environment import hard_example_mining, lc_server, of_job
from gm.core.rules.stages import TRAIN, output_models
from gm.core.tree import flag, mapping, number, objects, part, text
from gm.core.validation import trigger_problems, url_problem

_DATASET = ("spec", "dataset", "name")

_SettingsOf = Callable[[Site], tuple[Setting, ...]]
_INITIAL = ("spec", "initialModel", "name")
_EVAL = ("spec", "evalSpec", "initialEvalModel", "name")
_DEPLOY = ("spec", "deploySpec", "model", "name")
# The CRD's default of pollPeriodSeconds.
_POLL_PERIOD = 60
# Where LC copies what is to be deployed, below outputDir.
_DEPLOYED = "deploy/index.pkl"
_DNS = "ClusterFirstWithHostNet"


def _of_stage(site: Site) -> tuple[Setting, ...]:
    """Of a worker that trains or evaluates."""
    return (*of_job(site), lc_server(site), _original_dataset(site))


def _stage_workers(
    inference: _SettingsOf,
    train: _SettingsOf,
    evaluate: _SettingsOf,
    *,
    dns_policy: str = "",
    is_initial: bool = False,
) -> tuple[WorkerSpec, ...]:
    """`is_initial`: the inference worker runs from the beginning."""
    made = partial(WorkerSpec, host_network=True, dns_policy=dns_policy, is_told=True)
    ending = partial(made, restart_policy="OnFailure")
    return (
        made("Inference", ("spec", "deploySpec"), inference, stage="Deploy", is_initial=is_initial),
        ending("Train", ("spec", "trainSpec"), train, stage="Train"),
        ending("Eval", ("spec", "evalSpec"), evaluate, stage="Eval"),
    )


def _input_models(site: Site) -> tuple[str, ...]:
    """URLs of the models that LC chose."""
    return tuple(filter(None, (text(it, "url") for it in objects(site.input, "models"))))


def _own(site: Site, url: str) -> DataSource:
    """What the job itself has written, with the job's Secret."""
    return DataSource(url, text(site.object, "spec", "credentialName"))


def _output(site: Site) -> DataSource:
    """Where LC wants what the stage makes."""
    return _own(site, text(site.input, "outputDir"))


def _train_data(site: Site) -> Mounted:
    """The samples that LC chose, with the job's Secret."""
    return downloaded("TRAIN_DATASET_URL", _own(site, text(site.input, "dataURL")))


def _test_data(site: Site) -> Mounted:
    """The same, where the job has no Secret with the Dataset's."""
    samples = _own(site, text(site.input, "dataURL"))
    credential = samples.credential or _dataset_of(site).credential
    return downloaded("TEST_DATASET_URL", DataSource(samples.url, credential))


def _dataset_of(site: Site) -> DataSource:
    return site.dataset(text(site.object, *_DATASET))


def _problems(object_: Json) -> Iterator[Problem]:
    """Of the fields that both have."""
    directory = text(object_, "spec", "outputDir")
    if problem := url_problem("spec.outputDir", directory):
        yield problem
    probability = part(object_, "spec", "dataset", "trainProb")
    if isinstance(probability, int | float) and not 0 < probability <= 1:
        yield Problem(
            "spec.dataset.trainProb", f"{probability} is no share", "give more than 0, at most 1"
        )
    trigger = ("spec", "trainSpec", "trigger")
    yield from trigger_problems(object_, trigger, metrics="num_of_samples")


def _original_dataset(site: Site) -> Mounted:
    """The samples that LC's files refer to; of a remote dataset by an index, to be downloaded
    with what it names (kubeedge/sedna issue 35)."""
    dataset = _dataset_of(site)
    index = text(site.input, "dataIndexURL")
    is_indirect = bool(index) and index != dataset.url
    source = DataSource(index or dataset.url, dataset.credential, is_indirect=is_indirect)
    return downloaded("ORIGINAL_DATASET_URL", source)


def _il_train(site: Site) -> tuple[Setting, ...]:
    return (
        *_of_stage(site),
        downloaded("BASE_MODEL_URL", *_chosen_models(site)[:1]),
        Mounted("MODEL_URL", (_output(site),)),
        _train_data(site),
    )


def _il_eval(site: Site) -> tuple[Setting, ...]:
    return (
        *_of_stage(site),
        downloaded("MODEL_URLS", *_chosen_models(site)),
        _test_data(site),
    )


def _il_inference(site: Site) -> tuple[Setting, ...]:
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


def _chosen_models(site: Site) -> tuple[DataSource, ...]:
    """A Model of the API is opened by its own Secret, what was trained by the job's."""
    known = {
        source.url: source
        for path in (_DEPLOY, _EVAL, _INITIAL)
        if (source := site.model(*path)).url
    }
    return tuple(known.get(url) or _own(site, url) for url in _input_models(site))


def _il_check(object_: Json) -> Iterator[Problem]:
    yield from _problems(object_)
    yield from trigger_problems(object_, ("spec", "deploySpec", "trigger"))
    model = mapping(object_, "spec", "deploySpec", "model")
    if part(model, "pollPeriodSeconds") is not None and number(model, "pollPeriodSeconds") < 1:
        yield Problem(
            "spec.deploySpec.model.pollPeriodSeconds", "is less than 1", "give at least 1"
        )


INCREMENTAL_LEARNING = SednaKind(
    resource=kinds.INCREMENTAL_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=_stage_workers(_il_inference, _il_train, _il_eval, is_initial=True),
    models=(_INITIAL, _DEPLOY),
    optional_models=(_EVAL,),
    told_models=(_INITIAL, _DEPLOY, _EVAL),
    datasets=(_DATASET,),
    merge=Merge.STAGE,
    check=_il_check,
)


def _ll_train(site: Site) -> tuple[Setting, ...]:
    return (
        *_of_stage(site),
        _knowledge_base(site),
        *_training_so_far(site),
        Mounted("OUTPUT_URL", (_output(site),)),
        _train_data(site),
    )


def _ll_eval(site: Site) -> tuple[Setting, ...]:
    models = tuple(_own(site, url) for url in _input_models(site))
    return (
        *_of_stage(site),
        _knowledge_base(site),
        downloaded("MODEL_URLS", *models),
        Mounted("OUTPUT_URL", (_output(site),)),
        _test_data(site),
    )


def _ll_inference(site: Site) -> tuple[Setting, ...]:
    directory = text(site.object, "spec", "outputDir")
    return (
        *of_job(site),
        lc_server(site),
        Mounted("MODEL_URLS", (_own(site, posixpath.join(directory, _DEPLOYED)),)),
        # Sedna's library keeps its index there in each stage, and in /tmp where it is not set.
        Mounted("OUTPUT_URL", (_own(site, directory),), is_directory=True),
    )


def _knowledge_base(site: Site) -> Value:
    return Value("KB_SERVER", site.settings.kb_server)


def _training_so_far(site: Site) -> tuple[Value, ...]:
    """Whether a training was completed before, and the index of what it has learned."""
    done = [
        models
        for one in site.history
        if (text(one, "stage"), text(one, "type")) == (TRAIN, "Completed")
        and (models := output_models(one))
    ]
    flag = Value("HAS_COMPLETED_INITIAL_TRAINING", "true" if done else "false")
    return (flag, Value("CLOUD_KB_INDEX", text(done[0][0], "url"))) if done else (flag,)


LIFELONG_LEARNING = SednaKind(
    resource=kinds.LIFELONG_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=_stage_workers(_ll_inference, _ll_train, _ll_eval, dns_policy=_DNS),
    datasets=(_DATASET,),
    merge=Merge.STAGE,
    check=_problems,
)
