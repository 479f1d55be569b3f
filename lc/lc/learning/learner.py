"""Incremental and lifelong learning jobs on this node: one pump each, told of what it needs.

Owns which Dataset and which Models belong to which job; tidies up after jobs that left for good.
Guarantees: a job that cannot be read stops no other one; two jobs of one name never work at once.
"""

import asyncio
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
from lc.core.learning.dataset import Dataset
from lc.core.learning.fields import Malformed
from lc.core.learning.job import Job
from lc.core.learning.model import Model, models_in
from lc.core.learning.next_command import Known
from lc.core.learning.paths import folder_of
from lc.core.worker_info import WorkerInfo
from lc.files.host_files import HostFiles
from lc.files.mounted_secrets import Secrets
from lc.files.remote_files import Remote
from lc.learning.file_access import Reach
from lc.learning.job_worker import Pump
from lc.learning.spool import HOT_UPDATE, Spool
from lc.store import Store
from lc.workers.managers import Unfit

# Threads for files: a long copy of one job must not hold up the others, nor all of them the node.
THREADS = 4
# Seconds; the store forgets what left a day ago.
SWEEP_PERIOD = 3600.0

_JOBS = frozenset({INCREMENTAL_LEARNING_JOB.singular, LIFELONG_LEARNING_JOB.singular})
_REFERENCES = frozenset({DATASET.singular, MODEL.singular})


class Learner:
    """A `Manager`. `folder`: where samples wait, of this LC alone."""

    def __init__(
        self,
        store: Store,
        *,
        node: str,
        host: HostFiles,
        remote: Remote,
        secrets: Secrets,
        folder: Path,
    ) -> None:
        self._store = store
        self._node = node
        self._folder = folder
        self._executor = ThreadPoolExecutor(THREADS, "learning")
        self._reach = Reach(host, remote, secrets, self._executor)
        self._pumps: dict[ObjectKey, Pump] = {}
        self._working: dict[ObjectKey, asyncio.Task[None]] = {}
        self._references: dict[ObjectKey, Dataset | Model | str] = {}
        self._group: asyncio.TaskGroup | None = None

    @property
    def handles(self) -> frozenset[str]:
        return _JOBS

    @property
    def follows(self) -> frozenset[str]:
        return _JOBS | _REFERENCES

    def object_changed(self, document: Document) -> None:
        if document.kind in _REFERENCES:
            self._refer(document.key, _reference(document))
            return
        pump = self._pumps.get(document.key)
        if pump is not None and pump.document.uid != document.uid:
            pump.end()
            pump = None
        if pump is None:
            pump = Pump(document, self._store, self._reach, spool=self._spool(document.uid))
            self._pumps[document.key] = pump
            self._work(document.key, pump)
        self._tell(pump, document)

    def object_gone(self, document: Document) -> None:
        if document.kind in _REFERENCES:
            self._refer(document.key, None)
            return
        pump = self._pumps.get(document.key)
        if pump is not None and pump.document.uid == document.uid:
            del self._pumps[document.key]
            pump.end()

    def check(self, info: WorkerInfo) -> None:
        try:
            models_in(info.results)
        except Malformed as error:
            raise Unfit(str(error)) from error
        output = {"models": list(info.results), "ownerInfo": info.owner_info}
        check_body(encoded({"output": output}))

    async def worker_reported(self, info: WorkerInfo, document: Document) -> None:
        pump = self._pumps.get(document.key)
        if pump is None or pump.document.uid != document.uid:
            raise Unfit(f"{document.key} has left this node")
        await pump.worker_reported(info)

    def notes(self) -> Mapping[ObjectKey, str]:
        return {key: pump.note for key, pump in self._pumps.items()}

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for key, pump in self._pumps.items():
                    self._work(key, pump)
                while True:
                    await self._sweep()
                    await asyncio.sleep(SWEEP_PERIOD)
        finally:
            self._group = None
            self._reach.halt.set()
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _work(self, key: ObjectKey, pump: Pump) -> None:
        if self._group is None:
            return
        before = self._working.get(key)

        async def work() -> None:
            if before is not None:
                await asyncio.wait({before})
            await pump.run()

        task = self._group.create_task(work(), name=f"learning {key}")
        self._working[key] = task
        task.add_done_callback(lambda done: self._done(key, done))

    def _done(self, key: ObjectKey, done: asyncio.Task[None]) -> None:
        if self._working.get(key) is done:
            del self._working[key]

    def _tell(self, pump: Pump, document: Document) -> None:
        try:
            job = Job.parse(document.kind, document.json())
        except Malformed as error:
            logger.warning("job cannot be read", extra=fields(job=str(document.key), problem=error))
            pump.told(document, None, Known(self._node, None, {}), problem=str(error))
            return
        pump.told(document, job, self._known(job))

    def _known(self, job: Job) -> Known:
        dataset = self._references.get(ObjectKey(DATASET.singular, job.namespace, job.dataset))
        mine = dataset if isinstance(dataset, Dataset) and dataset.node == self._node else None
        models = {}
        for name in {job.initial_model, job.eval_model, job.deploy_model}:
            model = self._references.get(ObjectKey(MODEL.singular, job.namespace, name))
            if isinstance(model, Model):
                models[name] = model
        return Known(self._node, mine, models)

    def _refer(self, key: ObjectKey, found: Dataset | Model | str | None) -> None:
        """Its status is often news, but what jobs want to know of it seldom is."""
        if self._references.get(key) == found:
            return
        if found is None:
            self._references.pop(key, None)
        else:
            self._references[key] = found
        for pump in self._pumps.values():
            if pump.document.namespace == key.namespace:
                self._tell(pump, pump.document)

    def _spool(self, uid: str) -> Spool:
        return Spool(self._folder / uid)

    async def _sweep(self) -> None:
        """After jobs that the store has forgotten."""
        loop = asyncio.get_running_loop()
        here = {pump.document.uid for pump in self._pumps.values()}
        if not self._folder.exists():
            return
        for folder in list(self._folder.iterdir()):
            if folder.name in here or self._store.learning_state(folder.name) is not None:
                continue
            used = {pump.hot_update_config for pump in self._pumps.values()}
            await loop.run_in_executor(self._executor, self._remove, folder, used)
            logger.info("tidied up after a job that left", extra=fields(uid=folder.name))

    def _remove(self, folder: Path, used: set[str]) -> None:
        mark = folder / HOT_UPDATE
        config = mark.read_text() if mark.exists() else ""
        if config and config not in used:
            shutil.rmtree(self._reach.host.path(folder_of(config)), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def _reference(document: Document) -> Dataset | Model | str:
    """A text: why it cannot be read."""
    try:
        if document.kind == DATASET.singular:
            return Dataset.parse(document.json())
        return Model.of_resource(document.json())
    except Malformed as error:
        logger.warning(
            "object cannot be read", extra=fields(object=str(document.key), problem=error)
        )
        return str(error)
