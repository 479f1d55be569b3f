"""Learning jobs while their objects come, change and leave; on a real store and real files."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from edge_sidecars.sedna_api.core.api_object import Document
from lc.core.learning.state import LastReport, State
from lc.core.worker_info import WorkerInfo
from lc.files.node_files import FileSources, HostFiles, MountedSecrets
from lc.files.remote_files import Remote
from lc.learning.learner import Learner
from lc.store import Store, open_store
from lc.workers.managers import ObjectManagers
from tests.integration.lc.learning_job import SOON, parsed, resource
from tests.unit.lc.learning.jobs import condition, document, output

Json = dict[str, Any]
MODEL = {"format": "pb", "url": "/srv/out/train/1/model.pb"}
DATASET = resource("Dataset", "d1", url="/srv/d.txt", format="txt", nodeName="edge-a")
BASE = resource("Model", "base", url="/srv/m/base.pb", format="pb")
PROD = resource("Model", "prod", url="/srv/m/prod.pb", format="pb")


SUCCESS = WorkerInfo(
    name="il1-train-1-0",
    namespace="shop",
    owner_name="il1",
    owner_kind="incrementallearningjob",
    kind="train",
    status="completed",
    results=(MODEL,),
)


def job(*conditions: Json, version: int = 1, uid: str = "uid-il1", **given: Any) -> Document:
    found = document(*(conditions or (condition("Train", "Waiting", 1),)), train=SOON, **given)
    found["metadata"]["uid"] = uid
    return parsed(found, version=version)


class Desk:
    """A learner and its store."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root = root
        self.store = store
        self.spool = root / "spool"
        self.learner = Learner(
            store,
            FileSources(HostFiles(root), Remote(), MountedSecrets(None)),
            node="edge-a",
            folder=self.spool,
        )
        ObjectManagers(store, [self.learner]).start()

    def write(self, path: str, text: str) -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def append(self, path: str, text: str) -> None:
        """A file that is written anew is empty for a moment, which is another dataset."""
        with (self.root / path.lstrip("/")).open("a") as file:
            file.write(text)

    async def put(self, *documents: Document) -> None:
        for each in documents:
            await self.store.put(each)

    def told(self) -> list[Json]:
        return [json.loads(each.body) for each in self.store.pending()]

    async def said(self, phase: str, status: str, number: int = 1) -> Json:
        wanted = (phase, status, number)

        def find() -> Json | None:
            told = (
                it for it in self.told() if (it["phase"], it.get("status"), it["round"]) == wanted
            )
            return next(told, None)

        await eventually(find)
        found = find()
        assert found is not None
        return found


async def eventually(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - of files, nobody tells
            await asyncio.sleep(0.02)


def with_desk(root: Path, play: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_store(root / "data") as store:
            desk = Desk(root, store)
            running = asyncio.create_task(desk.learner.run())
            try:
                await play(desk)
                assert not running.done(), running.exception()
            finally:
                running.cancel()
                await asyncio.wait({running})

    asyncio.run(main())


def test_a_job_goes_on_as_what_it_needs_arrives(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        desk.write("/srv/d.txt", "".join(f"{n}\n" for n in range(10)))
        await desk.put(job())
        note = desk.learner.notes
        await eventually(lambda: "another node" in next(iter(note().values())))
        await desk.put(DATASET)
        await eventually(lambda: "model base" in next(iter(note().values())))
        await desk.put(BASE)
        await desk.said("Train", "Ready")
        await desk.put(PROD)
        done = condition("Train", "Completed", 1, data=output(MODEL))
        await desk.put(job(done, condition("Eval", "Waiting", 1), version=2))
        judged = await desk.said("Eval", "Ready")
        assert [each["url"] for each in judged["input"]["models"]] == [
            MODEL["url"],
            "/srv/m/prod.pb",
        ]

    with_desk(tmp_path, play)


def test_another_job_of_the_same_name_begins_anew(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        desk.write("/srv/d.txt", "".join(f"{n}\n" for n in range(10)))
        await desk.put(DATASET, BASE, job())
        await desk.said("Train", "Ready")
        old = job()
        await desk.store.delete(old.key, old.uid)
        assert desk.learner.notes() == {}
        await desk.put(job(uid="uid-other"))
        await eventually(lambda: [it for it in desk.store.pending() if it.uid == "uid-other"])
        data = desk.root / "srv/out/data/train/1/data.txt"
        assert data.read_text().split() == [str(n) for n in range(8)]

    with_desk(tmp_path, play)


def test_a_job_that_comes_back_within_a_day_goes_on_where_it_was(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        desk.write("/srv/d.txt", "".join(f"{n}\n" for n in range(10)))
        await desk.put(DATASET, BASE, job())
        await desk.said("Train", "Ready")
        old = job()
        await desk.store.delete(old.key, old.uid)
        await desk.put(job(condition("Train", "Running", 1), version=2))
        await desk.learner.worker_reported(SUCCESS, old)
        await desk.said("Train", "Completed")
        desk.append("/srv/d.txt", "".join(f"{n}\n" for n in range(10, 20)))
        await desk.put(
            job(
                condition("Train", "Completed", 1, data=output(MODEL)),
                condition("Train", "Waiting", 2),
                version=3,
            )
        )
        await desk.said("Train", "Ready", 2)
        data = desk.root / "srv/out/data/train/2/data.txt"
        assert data.read_text().split() == [str(n) for n in range(10, 18)]

    with_desk(tmp_path, play)


def test_what_a_job_left_goes_once_the_store_has_forgotten_it(tmp_path: Path) -> None:
    hot = tmp_path / "var/lib/sedna/model-hot-update/shop/incrementallearningjob/gone"
    hot.mkdir(parents=True)
    (hot / "model.pb").write_text("old")
    for uid in ("forgotten", "uid-il1"):
        (tmp_path / "spool" / uid).mkdir(parents=True)
        (tmp_path / "spool" / uid / "1.train.samples").write_text("1\n")
    mark = tmp_path / "spool/forgotten/hot-update"
    mark.write_text(
        "/var/lib/sedna/model-hot-update/shop/incrementallearningjob/gone/model_config.json"
    )

    async def fill() -> None:
        async with open_store(tmp_path / "data") as store:
            await store.put(job())
            await store.save_learning_state(job(), b"{}")
            await store.delete(job().key, job().uid)

    asyncio.run(fill())

    async def play(desk: Desk) -> None:
        await eventually(lambda: not (desk.spool / "forgotten").exists())
        assert not hot.exists()
        assert (desk.spool / "uid-il1").exists(), "its day is not over"

    with_desk(tmp_path, play)


def test_a_state_that_cannot_be_read_begins_anew_and_ends_nothing(tmp_path: Path) -> None:
    async def fill() -> None:
        async with open_store(tmp_path / "data") as store:
            await store.put(job())
            await store.save_learning_state(job(), b"what")

    asyncio.run(fill())

    async def play(desk: Desk) -> None:
        desk.write("/srv/d.txt", "".join(f"{n}\n" for n in range(10)))
        await desk.put(DATASET, BASE)
        await desk.said("Train", "Ready")

    with_desk(tmp_path, play)


def test_what_gm_lost_is_kept_word_for_word_to_be_told_again(tmp_path: Path) -> None:
    async def play(desk: Desk) -> None:
        desk.write("/srv/d.txt", "".join(f"{n}\n" for n in range(10)))
        await desk.put(DATASET, BASE, job())
        await desk.said("Train", "Ready")
        [report] = desk.store.pending()
        saved = State.decode(desk.store.learning_state("uid-il1")).said
        assert saved == LastReport("Train", 1, report.body)

    with_desk(tmp_path, play)
