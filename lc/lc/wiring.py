"""One LC, put together: store, managers, link, HTTP, and how it all stands.

Owns which parts the mode needs: only these are imported. Guarantees: what is in the store is served
before the link is there, and without it.
"""

import time
from collections.abc import Sequence

from edge_sidecars.runtime.clock import boottime
from edge_sidecars.runtime.version import VERSION
from edge_sidecars.sedna_api.core.api_object import Document, ObjectKey
from lc.config.config import Config
from lc.files.host_files import HostFiles
from lc.files.mounted_secrets import MountedSecrets
from lc.files.remote_files import Remote
from lc.learning.learner import Learner
from lc.link import GmLink
from lc.store import Store
from lc.telemetry.status import LcCounters, LcStatus, ObjectStatus, ReportsStatus, StoreStatus
from lc.web.worker_api import WorkerApi
from lc.workers.datasets import Datasets
from lc.workers.forwarder import Forwarder
from lc.workers.managers import ObjectManager, ObjectManagers
from lc.workers.unknown_jobs import UnknownJobReports

# Of the data directory: where learning jobs keep samples until their round.
SAMPLES = "samples"


class LocalController:
    """`remote` is closed by whoever opened it."""

    def __init__(self, config: Config, store: Store, remote: Remote) -> None:
        self.config = config
        self._store = store
        self._remote = remote
        self._began_at = boottime()
        host = HostFiles(config.root)
        secrets = MountedSecrets(config.secrets_dir)
        self._datasets = Datasets(
            store, host=host, remote=remote, secrets=secrets, interval=config.dataset_interval
        )
        self.managers: Sequence[ObjectManager] = (
            self._datasets,
            Forwarder(store),
            Learner(
                store,
                node=config.node,
                host=host,
                remote=remote,
                secrets=secrets,
                folder=config.data_dir / SAMPLES,
            ),
        )
        self._managing = ObjectManagers(store, self.managers)
        self.unknown_jobs = UnknownJobReports(store, self._managing.handling)
        self.link = _link(config, store)
        self.api = WorkerApi(self)

    def start(self) -> None:
        """Managers know what is in the store from here on."""
        self._managing.start()

    def get(self, key: ObjectKey) -> Document | None:
        return self._store.get(key)

    def handling(self, kind: str) -> ObjectManager | None:
        return self._managing.handling(kind)

    def status(self) -> LcStatus:
        now = boottime()
        link = self.link.status()
        return LcStatus(
            node=self.config.node,
            mode="relay" if self.config.is_relay else "stream",
            version=VERSION,
            uptime=now - self._began_at,
            link=link,
            link_for=max(now - link.since, 0.0),
            store=self._store_status(),
            reports=self._reports(),
            objects=self.objects(),
            transfers=self._remote.transfers(),
            counters=LcCounters(
                worker_reports=tuple(sorted(self.api.answered.items())),
                dataset_counts=self._datasets.counts,
                dataset_problems=self._datasets.problems(),
                unknown_jobs_dropped=tuple(sorted(self.unknown_jobs.dropped.items())),
            ),
        )

    def objects(self) -> tuple[ObjectStatus, ...]:
        notes = self._managing.notes()
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
        return ReportsStatus(waiting, oldest, refused, refusals, self.unknown_jobs.waiting)


def _link(config: Config, store: Store) -> GmLink:
    """Imported only where used: an edge node's memory is not for what it does not do."""
    if config.is_relay:
        from lc.relay import RelayLink

        return RelayLink(
            store,
            node=config.node,
            api=config.api,
            relay_status=config.relay_status,
            namespace=config.namespace,
            redial_cap=config.redial_cap,
            version=VERSION,
        )
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
    )
