"""What a kind is: the types of the table that the engine works from.

A kind is data: where its templates are, which workers it makes from them with which environment,
what it refers to, by which rule its state follows from its children, and how reports about it take
effect. A row is in one file of `kinds/`. Nothing here decides anything.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from edge_sidecars.sedna_api.core.api_object import Json, ObjectKey
from edge_sidecars.sedna_api.core.kinds import DATASET, MODEL, ResourceKind
from gm.core.tree import mapping, text

# The variable by which a worker knows its LC.
LC_SERVER = "LC_SERVER"
# By its address: what localhost is, a pod's /etc/hosts says.
DEFAULT_LC_SERVER = "http://127.0.0.1:9100"

Path: TypeAlias = tuple[str, ...]
"""Keys from the object on; `*` is each item of a list."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What workers get of their surroundings: URLs of LC and of the knowledge base; and the
    namespaces in which none are made. `has_capabilities`: LC's URL is another one for each worker,
    by which LC knows it; `fresh_key`: for an object that has no key yet."""

    lc_server: str = "http://localhost:9100"
    kb_server: str = "http://localhost:9020"
    refused_namespaces: frozenset[str] = frozenset()
    has_capabilities: bool = False
    fresh_key: str = ""


class Rule(Enum):
    """How the state of an object follows from its children and reports."""

    RECORD = "record"  # no children: it is only validated and counted
    JOB = "job"  # pods that end
    SERVICE = "service"  # workers that are to be available
    STAGED = "staged"  # Train, Eval, Deploy, in rounds


class Workload(Enum):
    """As what a worker runs."""

    POD = "Pod"
    DEPLOYMENT = "Deployment"


class Merge(Enum):
    """What a report about an object of the kind changes."""

    NOTHING = "nothing"
    SAMPLES = "samples"  # numberOfSamples, or a problem in words
    METRICS = "metrics"  # ownerInfo becomes status.metrics
    TRAINING = "training"  # rounds become conditions, metrics go to the Model
    STAGE = "stage"  # a stage is ready, completed or failed


@dataclass(frozen=True, slots=True)
class DataSource:
    """Something that a worker reads or writes: without a scheme a path on its node. `is_indirect`:
    an index file, whose content is to be downloaded too."""

    url: str
    credential: str = ""
    is_indirect: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """An environment variable."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Mounted:
    """An environment variable with the places of sources inside the worker, joined by `;`. Of a
    path on the node the worker gets the directory that it lies in, or with `is_directory` itself.
    """

    name: str
    sources: tuple[DataSource, ...]
    is_downloaded: bool = False
    is_directory: bool = False


def downloaded(name: str, *sources: DataSource) -> Mounted:
    """What a worker gets as files, wherever it is."""
    return Mounted(name, sources, is_downloaded=True)


@dataclass(frozen=True, slots=True)
class HotUpdate:
    """The worker looks every so many seconds whether a newer model lies in the shared directory."""

    poll_period: int


Setting: TypeAlias = Value | Mounted | HotUpdate


@dataclass(frozen=True, slots=True)
class Site:
    """One worker to be: what its environment may depend on. `part` is where its template is;
    `name` its own; `input` what LC reported for its stage; `history` conditions before that.
    `worker_key`: of the object, "" where workers have no capability."""

    object: Json
    part: Json
    name: str
    references: Mapping[ObjectKey, Json | None]
    settings: WorkerSettings
    input: Json
    history: tuple[Json, ...]
    worker_key: str = ""

    @property
    def namespace(self) -> str:
        return text(self.object, "metadata", "namespace")

    @property
    def job(self) -> str:
        return text(self.object, "metadata", "name")

    def source(self, kind: ResourceKind, name: str) -> DataSource:
        """Where a Dataset or Model is, and the Secret that opens it."""
        found = self.references.get(ObjectKey(kind.singular, self.namespace, name))
        spec = mapping(found, "spec")
        return DataSource(text(spec, "url"), text(spec, "credentialName"))

    def model(self, *path: str) -> DataSource:
        """The Model whose name is at a path from the object on."""
        return self.source(MODEL, text(self.object, *path))

    def dataset(self, name: str) -> DataSource:
        return self.source(DATASET, name)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What is made from one template of the object, or from each of a list.

    `type` is its name in Sedna's words; `path` leads to what has the `template`. `stage`:
    of a staged kind, the stage that it works for; `is_initial`: it runs from the beginning, not
    only from its stage on. `port`: it gets a Service. `is_told`: the LC of its node gets the
    object; `needs_node`: so its template has to name the node. `restart_policy`, `dns_policy`:
    where the template says none.
    """

    type: str
    path: Path
    settings: Callable[[Site], tuple[Setting, ...]]
    workload: Workload = Workload.POD
    stage: str = ""
    is_initial: bool = False
    port: int = 0
    host_network: bool = False
    dns_policy: str = ""
    restart_policy: str = ""
    is_told: bool = False
    needs_node: bool = False

    @property
    def label(self) -> str:
        """What the label worker-type says of its children."""
        return self.type.lower()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing can be made of an object: the field, what is wrong with it, what to do.
    `is_awaited`: it may be over in a moment, so that no condition shows it yet."""

    field: str
    message: str
    remedy: str
    reason: str = "InvalidSpec"
    is_awaited: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """Types of conditions by which a job kind tells its state."""

    started: str
    running: str
    completed: str


def unchecked(_: Json) -> tuple[Problem, ...]:
    """Of a kind with nothing beyond templates and references."""
    return ()


@dataclass(frozen=True, slots=True)
class SednaKind:
    """One row. `models`, `datasets`, `secrets`: paths of names; an optional one may be missing.

    `told_models`: Models that the LCs get with the object. `words`, `times`: of its conditions.
    `check`: what is wrong beyond templates and references.
    """

    resource: ResourceKind
    rule: Rule
    workers: tuple[WorkerSpec, ...] = ()
    models: tuple[Path, ...] = ()
    optional_models: tuple[Path, ...] = ()
    datasets: tuple[Path, ...] = ()
    secrets: tuple[Path, ...] = ()
    told_models: tuple[Path, ...] = ()
    merge: Merge = Merge.NOTHING
    words: Words = Words("Starting", "Running", "Completed")
    times: tuple[str, ...] = ("lastHeartbeatTime", "lastTransitionTime")
    check: Callable[[Json], Iterable[Problem]] = unchecked
