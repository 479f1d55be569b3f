"""Incremental and lifelong learning jobs on this node: one `JobWorker` each.

Owns which Dataset and which Models belong to which job; tidies up after jobs that left for good.
Guarantees: a job that cannot be read stops no other one; two jobs of one name never work at once.
"""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from edge_sidecars.runtime.log import fields, logger
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from edge_sidecars.sedna_api.core.kinds import (
    DATASET,
    INCREMENTAL_LEARNING_JOB,
    LIFELONG_LEARNING_JOB,
    MODEL,
)
from edge_sidecars.sedna_api.core.report import check_body
from lc.core.learning.commands import encoded
from lc.core.learning.fields import MalformedJob
from lc.core.learning.job import Dataset, Job, Model, models_in
from lc.core.learning.next_command import JobInputs
from lc.core.learning.paths import HOT_UPDATES, folder_of, is_below
from lc.core.worker_info import UNFORESEEN, UnusableReport, WorkerInfo
from lc.files.file_thread import Hanging, Progress, in_file_thread
from lc.files.host_files import ForeignPath
from lc.files.node_files import FileSources
from lc.learning.job_files import PATIENCE, THREADS, SharedFiles
from lc.learning.job_worker import JobWorker
from lc.learning.spool import HOT_UPDATE, Spool
from lc.store import Store

# Seconds; the store forgets what left a day ago.
SWEEP_PERIOD = 3600.0

_JOBS = frozenset({INCREMENTAL_LEARNING_JOB.singular, LIFELONG_LEARNING_JOB.singular})
_REFERENCES = frozenset({DATASET.singular, MODEL.singular})


class Learner:
    """A manager. `folder`: where samples wait, of this LC exclusive."""

    handles = _JOBS
    follows = _JOBS | _REFERENCES

    def __init__(
        self,
        store: Store,
        sources: FileSources,
        *,
        node: str,
        folder: Path,
        max_size: int = 16 * 1024**3,
    ) -> None:
        self._store = store
        self._node = node
        self._folder = folder
        self._shared = SharedFiles(sources, asyncio.Semaphore(THREADS), max_size=max_size)
        self._workers: dict[ObjectKey, JobWorker] = {}
        self._working: dict[ObjectKey, asyncio.Task[None]] = {}
        self._references: dict[ObjectKey, Dataset | Model | str] = {}
        self._group: asyncio.TaskGroup | None = None

    def object_changed(self, document: Document) -> None:
        if document.kind in _REFERENCES:
            self._refer(document.key, _reference(document))
            return
        worker = self._workers.get(document.key)
        if worker is not None and worker.document.uid != document.uid:
            worker.end()
            worker = None
        if worker is None:
            spool = Spool(self._folder / document.uid)
            worker = JobWorker(document, self._store, self._shared, spool=spool)
            self._workers[document.key] = worker
            self._work(document.key, worker)
        self._tell(worker, document)

    def object_gone(self, document: Document) -> None:
        if document.kind in _REFERENCES:
            self._refer(document.key, None)
            return
        worker = self._workers.get(document.key)
        if worker is not None and worker.document.uid == document.uid:
            del self._workers[document.key]
            worker.end()

    def check(self, info: WorkerInfo) -> None:
        try:
            models_in(info.results)
        except MalformedJob as error:
            raise UnusableReport(str(error)) from error
        check_body(encoded({"output": info.output}))

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        worker = self._workers.get(document.key)
        if worker is None or worker.document.uid != document.uid:
            raise UnusableReport(f"{document.key} has left this node")
        await worker.worker_reported(info)

    def notes(self) -> Mapping[ObjectKey, str]:
        return {key: worker.note for key, worker in self._workers.items()}

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for key, worker in self._workers.items():
                    self._work(key, worker)
                while True:
                    await self._sweep()
                    await asyncio.sleep(SWEEP_PERIOD)
        finally:
            self._group = None
            self._shared.halt.set()

    def _work(self, key: ObjectKey, worker: JobWorker) -> None:
        if self._group is None:
            return
        before = self._working.get(key)

        async def work() -> None:
            if before is not None:
                await asyncio.wait({before})
            await worker.run()

        task = self._group.create_task(work(), name=f"learning {key}")
        self._working[key] = task
        task.add_done_callback(lambda done: self._done(key, done))

    def _done(self, key: ObjectKey, done: asyncio.Task[None]) -> None:
        if self._working.get(key) is done:
            del self._working[key]

    def _tell(self, worker: JobWorker, document: Document) -> None:
        try:
            job = Job.parse(document.kind, document.json())
        except UNFORESEEN as error:  # MalformedJob is one
            logger.warning("job cannot be read", extra=fields(job=str(document.key), problem=error))
            worker.told(document, None, JobInputs(self._node, None, {}), problem=str(error))
            return
        worker.told(document, job, self._known(job))

    def _known(self, job: Job) -> JobInputs:
        dataset = self._references.get(ObjectKey(DATASET.singular, job.namespace, job.dataset))
        mine = dataset if isinstance(dataset, Dataset) and dataset.node == self._node else None
        models = {}
        for name in {job.initial_model, job.eval_model, job.deploy_model}:
            model = self._references.get(ObjectKey(MODEL.singular, job.namespace, name))
            if isinstance(model, Model):
                models[name] = model
        return JobInputs(self._node, mine, models)

    def _refer(self, key: ObjectKey, found: Dataset | Model | str | None) -> None:
        """Its status is often news, but what jobs want to know of it seldom is."""
        if self._references.get(key) == found:
            return
        if found is None:
            self._references.pop(key, None)
        else:
            self._references[key] = found
        for worker in self._workers.values():
            if worker.document.namespace == key.namespace:
                self._tell(worker, worker.document)

    async def _sweep(self) -> None:
        """After jobs that the store has forgotten."""
        here = {worker.document.uid for worker in self._workers.values()}
        if not self._folder.exists():
            return
        for folder in list(self._folder.iterdir()):
            if folder.name in here or self._store.learning_state(folder.name) is not None:
                continue
            used = {worker.hot_update_config for worker in self._workers.values()}
            try:
                await self._remove(folder, used)
            except (OSError, Hanging, ForeignPath, RecursionError) as error:
                logger.warning(
                    "files of a job that left stay",
                    extra=fields(uid=folder.name, why=error),
                )
                continue
            logger.info("tidied up after a job that left", extra=fields(uid=folder.name))

    async def _remove(self, folder: Path, used: set[str]) -> None:
        def work() -> None:
            mark = folder / HOT_UPDATE
            config = mark.read_text() if mark.exists() else ""
            if config not in used and is_below(HOT_UPDATES, folder_of(config)):
                self._shared.sources.host.remove_folder(folder_of(config))
            shutil.rmtree(folder, ignore_errors=True)

        async with self._shared.slots:
            await in_file_thread(work, Progress(), patience=PATIENCE)


def _reference(document: Document) -> Dataset | Model | str:
    """A text: why it cannot be read."""
    try:
        if document.kind == DATASET.singular:
            return Dataset.parse(document.json())
        return Model.of_resource(document.json())
    except UNFORESEEN as error:  # MalformedJob is one
        logger.warning(
            "object cannot be read", extra=fields(object=str(document.key), problem=error)
        )
        return str(error)
