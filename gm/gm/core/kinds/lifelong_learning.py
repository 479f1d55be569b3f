"""LifelongLearningJob: as incremental learning, with a knowledge base that grows each round."""

import posixpath

from edge_sidecars.sedna_api.core import kinds
from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import (
    Merge,
    Mounted,
    Problem,
    Rule,
    SednaKind,
    Setting,
    Site,
    Value,
    WorkerSpec,
)
from gm.core.kinds.environment import lc_server, of_job
from gm.core.kinds.learning import (
    DATASET,
    dataset_of,
    input_data,
    input_models,
    of_stage,
    own,
    problems,
)
from gm.core.rules.stages import TRAIN, output_models
from gm.core.tree import text

# Where LC copies what is to be deployed, below outputDir.
_DEPLOYED = "deploy/index.pkl"
_DNS = "ClusterFirstWithHostNet"


def _train(site: Site) -> tuple[Setting, ...]:
    return (
        *of_stage(site),
        _knowledge_base(site),
        *_training_so_far(site),
        Mounted("OUTPUT_URL", (own(site, text(site.input, "outputDir")),)),
        input_data(site, "TRAIN_DATASET_URL", own(site, "").credential),
    )


def _eval(site: Site) -> tuple[Setting, ...]:
    credential = own(site, "").credential or dataset_of(site).credential
    models = tuple(own(site, url) for url in input_models(site))
    return (
        *of_stage(site),
        _knowledge_base(site),
        Mounted("MODEL_URLS", models, is_downloaded=True),
        Mounted("OUTPUT_URL", (own(site, text(site.input, "outputDir")),)),
        input_data(site, "TEST_DATASET_URL", credential),
    )


def _inference(site: Site) -> tuple[Setting, ...]:
    directory = text(site.object, "spec", "outputDir")
    return (
        *of_job(site),
        lc_server(site),
        Mounted("MODEL_URLS", (own(site, posixpath.join(directory, _DEPLOYED)),)),
        # Sedna's library keeps its index there in each stage, and in /tmp where it is not set.
        Mounted("OUTPUT_URL", (own(site, directory),), is_directory=True),
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
    said = Value("HAS_COMPLETED_INITIAL_TRAINING", "true" if done else "false")
    return (said, Value("CLOUD_KB_INDEX", text(done[0][0], "url"))) if done else (said,)


def _check(object_: Json) -> tuple[Problem, ...]:
    return tuple(problems(object_))


LIFELONG_LEARNING = SednaKind(
    resource=kinds.LIFELONG_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=(
        WorkerSpec(
            type="Inference",
            path=("spec", "deploySpec"),
            settings=_inference,
            stage="Deploy",
            host_network=True,
            dns_policy=_DNS,
            is_told=True,
        ),
        WorkerSpec(
            type="Train",
            path=("spec", "trainSpec"),
            settings=_train,
            stage="Train",
            host_network=True,
            dns_policy=_DNS,
            restart_policy="OnFailure",
            is_told=True,
        ),
        WorkerSpec(
            type="Eval",
            path=("spec", "evalSpec"),
            settings=_eval,
            stage="Eval",
            host_network=True,
            dns_policy=_DNS,
            restart_policy="OnFailure",
            is_told=True,
        ),
    ),
    datasets=(DATASET,),
    merge=Merge.STAGE,
    check=_check,
)
