"""What incremental and lifelong learning have in common: their stages' workers and triggers."""

from collections.abc import Callable, Iterator
from functools import partial

from edge_sidecars.sedna_api.core.api_object import Json
from gm.core.kind import DataSource, Mounted, Problem, Setting, Site, WorkerSpec, downloaded
from gm.core.kinds.environment import lc_server, of_job
from gm.core.tree import objects, part, text
from gm.core.validation import trigger_problems, url_problem

DATASET = ("spec", "dataset", "name")

SettingsOf = Callable[[Site], tuple[Setting, ...]]


def of_stage(site: Site) -> tuple[Setting, ...]:
    """Of a worker that trains or evaluates."""
    return (*of_job(site), lc_server(site), _original_dataset(site))


def stage_workers(
    inference: SettingsOf,
    train: SettingsOf,
    evaluate: SettingsOf,
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


def input_models(site: Site) -> tuple[str, ...]:
    """URLs of the models that LC chose."""
    return tuple(filter(None, (text(it, "url") for it in objects(site.input, "models"))))


def own(site: Site, url: str) -> DataSource:
    """What the job itself has written, with the job's Secret."""
    return DataSource(url, text(site.object, "spec", "credentialName"))


def input_data(site: Site, name: str, credential: str) -> Mounted:
    """The samples that LC chose."""
    return downloaded(name, DataSource(text(site.input, "dataURL"), credential))


def dataset_of(site: Site) -> DataSource:
    return site.dataset(text(site.object, *DATASET))


def problems(object_: Json) -> Iterator[Problem]:
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
    dataset = dataset_of(site)
    index = text(site.input, "dataIndexURL")
    is_indirect = bool(index) and index != dataset.url
    source = DataSource(index or dataset.url, dataset.credential, is_indirect=is_indirect)
    return downloaded("ORIGINAL_DATASET_URL", source)
