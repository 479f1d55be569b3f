"""LifelongLearningJob: as incremental learning, with a knowledge base that grows each round."""

import posixpath

from edge_sidecars.sedna_api.core import kinds
from gm.core.kind import Merge, Mounted, Rule, SednaKind, Setting, Site, Value, downloaded
from gm.core.kinds import learning
from gm.core.kinds.environment import lc_server, of_job
from gm.core.rules.stages import TRAIN, output_models
from gm.core.tree import text

# Where LC copies what is to be deployed, below outputDir.
_DEPLOYED = "deploy/index.pkl"
_DNS = "ClusterFirstWithHostNet"


def _train(site: Site) -> tuple[Setting, ...]:
    return (
        *learning.of_stage(site),
        _knowledge_base(site),
        *_training_so_far(site),
        Mounted("OUTPUT_URL", (learning.own(site, text(site.input, "outputDir")),)),
        learning.input_data(site, "TRAIN_DATASET_URL", learning.own(site, "").credential),
    )


def _eval(site: Site) -> tuple[Setting, ...]:
    credential = learning.own(site, "").credential or learning.dataset_of(site).credential
    models = tuple(learning.own(site, url) for url in learning.input_models(site))
    return (
        *learning.of_stage(site),
        _knowledge_base(site),
        downloaded("MODEL_URLS", *models),
        Mounted("OUTPUT_URL", (learning.own(site, text(site.input, "outputDir")),)),
        learning.input_data(site, "TEST_DATASET_URL", credential),
    )


def _inference(site: Site) -> tuple[Setting, ...]:
    directory = text(site.object, "spec", "outputDir")
    return (
        *of_job(site),
        lc_server(site),
        Mounted("MODEL_URLS", (learning.own(site, posixpath.join(directory, _DEPLOYED)),)),
        # Sedna's library keeps its index there in each stage, and in /tmp where it is not set.
        Mounted("OUTPUT_URL", (learning.own(site, directory),), is_directory=True),
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


LIFELONG_LEARNING = SednaKind(
    resource=kinds.LIFELONG_LEARNING_JOB,
    rule=Rule.STAGED,
    workers=learning.stage_workers(_inference, _train, _eval, dns_policy=_DNS),
    datasets=(learning.DATASET,),
    merge=Merge.STAGE,
    check=learning.problems,
)
