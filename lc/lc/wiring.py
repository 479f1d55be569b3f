"""One LC, put together: store, managers, link, HTTP, and the state of all of it.

Owns which parts the mode needs: only these are imported. Guarantees: what is in the store is served
before the link is there, and without it.
"""

import time

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.metrics import Metric
from edge_sidecars.runtime.process import VERSION
from edge_sidecars.runtime.web.listener_metrics import figures
from lc.config.config import Config
from lc.files.host_files import HostFiles
from lc.files.node_files import FileSources, MountedSecrets
from lc.files.remote_files import Remote
from lc.learning.learner import Learner
from lc.link import GmLink
from lc.status import (
    LcCounters,
    LcStatus,
    LinkStatus,
    ObjectStatus,
    RefusalStatus,
    ReportsStatus,
    StoreStatus,
    TransferStatus,
    measure,
)
from lc.store import Store
from lc.web.worker_api import WorkerApi
from lc.workers.authorization import WorkerAuthorization
from lc.workers.datasets import Datasets
from lc.workers.forwarder import Forwarder
from lc.workers.managers import ObjectManagers
from lc.workers.unknown_jobs import UnknownJobReports

# Of the data directory: where learning jobs keep samples until their round.
SAMPLES = "samples"


class LocalController:
    """`remote` is closed by its opener."""

    def __init__(self, config: Config, store: Store, remote: Remote) -> None:
        self.config = config
        self._store = store
        self._remote = remote
        self._began_at = boottime()
        host = HostFiles(
            config.root, config.files_roots, own=config.data_dir, is_own_name=_is_own_name
        )
        sources = FileSources(host, remote, MountedSecrets(config.secrets_dir))
        self._datasets = Datasets(store, sources, interval=config.dataset_interval)
        learner = Learner(
            store,
            sources,
            node=config.node,
            folder=config.data_dir / SAMPLES,
            max_size=config.max_transfer_size,
        )
        self.managers = ObjectManagers(store, (self._datasets, Forwarder(store), learner))
        authorization = WorkerAuthorization(config.node, trusts_any_worker=config.trusts_any_worker)
        self.unknown_jobs = UnknownJobReports(store, self.managers.handling, authorization)
        self.link = _link(config, store)
        self.api = WorkerApi(
            store,
            self.managers,
            self.unknown_jobs,
            authorization,
            lc_status=self.status,
            measured=self._measured,
        )

    def status(self) -> LcStatus:
        now = boottime()
        link = self.link.status()
        return LcStatus(
            node=self.config.node,
            mode="relay" if self.config.is_relay else "stream",
            version=VERSION,
            uptime_seconds=round(now - self._began_at, 3),
            link=LinkStatus(
                link.is_up, link.peer, round(max(now - link.since, 0.0), 3), link.problem
            ),
            store=self._store_status(),
            reports=self._reports(),
            objects=self._objects(),
            listeners=figures(),
            transfers=tuple(
                TransferStatus(each.url, each.done, each.size) for each in self._remote.transfers()
            ),
        )

    def _measured(self) -> list[Metric]:
        counters = LcCounters(
            worker_reports=tuple(sorted(self.api.answered.items())),
            dataset_counts=self._datasets.counts,
            dataset_problems=self._datasets.problems(),
            unknown_jobs_dropped=tuple(sorted(self.unknown_jobs.dropped.items())),
        )
        return measure(self.status(), counters)

    def _objects(self) -> tuple[ObjectStatus, ...]:
        notes = self.managers.notes()
        return tuple(
            ObjectStatus(
                kind=each.kind,
                namespace=each.namespace,
                name=each.name,
                uid=each.uid,
                resource_version=str(each.resource_version),
                note=notes.get(each.key, ""),
            )
            for kind in self._store.kinds()
            for each in sorted(self._store.objects(kind), key=lambda it: it.key)
        )

    def _store_status(self) -> StoreStatus:
        store = self._store
        return StoreStatus(
            directory=str(self.config.data_dir),
            id=store.store_id,
            note=store.note,
            failure=store.failure,
            failures=store.failures,
        )

    def _reports(self) -> ReportsStatus:
        waiting, since = self._store.backlog()
        refused, refusals = self._store.refusals()
        oldest = None if since is None else max(time.time() - since, 0.0)
        shown = tuple(
            RefusalStatus(*each.key, each.uid, each.seq, each.reason) for each in refusals
        )
        return ReportsStatus(waiting, oldest, self.unknown_jobs.waiting, refused, shown)


def _is_own_name(name: str) -> bool:
    """Of the data directory, which lies among what jobs may use: LC's store and samples; Sedna's
    store, which has keys of S3 in it."""
    return name == SAMPLES or name.startswith(("lc.", "database.db"))


def _link(config: Config, store: Store) -> GmLink:
    """Imported only where used: an edge node's memory is not for what it does not do."""
    if config.is_relay:
        from lc.relay import RelayLink

        return RelayLink(store, config)
    from lc.stream.stream_link import ClientTls, StreamLink

    tls = None
    if config.server_ca is not None:
        tls = ClientTls(config.server_ca, config.tls_cert, config.tls_key)
    return StreamLink(
        store,
        node=config.node,
        addresses=[str(each) for each in config.gm_addresses],
        version=VERSION,
        redial_cap=config.redial_cap,
        tls=tls,
        token_file=config.gm_token_file,
        proxies=config.proxies,
    )
