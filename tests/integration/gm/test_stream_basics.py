"""Objects down, reports up: one LC, one GM, and each of them again."""

from pathlib import Path

from edge_sidecars.sedna_api.core.messages import Ack, ReportRefused
from edge_sidecars.sedna_api.core.report import Report
from edge_sidecars.sedna_api.core.store_reports import RETIRED_STORE
from tests.integration.gm.streams import (
    Cloud,
    ReportSink,
    acknowledge,
    document,
    eventually,
    never,
    play,
    running_gm,
    running_lc,
)


def test_an_lc_gets_what_concerns_its_node_and_what_changes(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        cloud.put("edge-b", document("foreign", 2))
        async with running_gm(cloud) as gm, running_lc(tmp_path, gm.address) as lc:
            await eventually(lambda: lc.is_up)
            assert lc.names() == ["d1"]
            cloud.put("edge-a", document("d2", 3))
            cloud.put("edge-a", document("d1", 4))
            await eventually(lambda: lc.versions() == {"d1": 4, "d2": 3})
            cloud.delete("edge-a", document("d1", 5))
            await eventually(lambda: lc.names() == ["d2"])
            cloud.put("edge-a", document("d2", 6, uid="another"))
            await eventually(
                lambda: [each.uid for each in lc.store.objects("dataset")] == ["another"]
            )

    play(scene())


def test_what_was_deleted_while_lc_was_away_is_gone_at_reconnect(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        for version, name in enumerate(("d1", "d2", "d3"), 1):
            cloud.put("edge-a", document(name, version))
        async with running_gm(cloud) as gm:
            async with running_lc(tmp_path, gm.address) as lc:
                await eventually(lambda: len(lc.names()) == 3)
            cloud.delete("edge-a", document("d2", 4))
            async with running_lc(tmp_path, gm.address) as lc:
                # From its own store, before anybody is asked.
                assert lc.names() == ["d1", "d2", "d3"]
                await eventually(lambda: lc.is_up)
                assert lc.names() == ["d1", "d3"]

    play(scene())


def test_a_report_is_kept_until_it_is_acknowledged_and_survives_lcs_restart(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud, answers = Cloud(), ReportSink(lambda node, report: None)
        dataset = document("d1", 1)
        cloud.put("edge-a", dataset)
        async with running_gm(cloud, sink=answers) as gm:
            async with running_lc(tmp_path, gm.address) as lc:
                await eventually(lambda: lc.is_up)
                await lc.report(dataset, {"numberOfSamples": 3})
                await eventually(lambda: answers.taken)
                assert lc.store.backlog()[0] == 1
            answers.verdict = acknowledge
            async with running_lc(tmp_path, gm.address) as lc:
                await eventually(lambda: lc.store.backlog()[0] == 0)
        (_, first), *again = answers.taken
        assert again
        assert all(report == first for _, report in again)

    play(scene())


def test_reports_of_one_object_arrive_in_order_across_a_gm_restart(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge)
        job = document("il", 1, kind="incrementallearningjob")
        cloud.put("edge-a", job)
        async with running_gm(cloud, sink=sink) as gm:
            port = gm.port
            async with running_lc(tmp_path, gm.address) as lc:
                await eventually(lambda: lc.is_up)
                for number in range(20):
                    await lc.report(job, {"phase": "Train", "n": number}, is_event=True)
                await gm.hub.drain("a test ends")
                await gm.server.stop()
                for number in range(20, 40):
                    await lc.report(job, {"phase": "Train", "n": number}, is_event=True)
                async with running_gm(cloud, sink=sink, port=port):
                    await eventually(lambda: lc.store.backlog()[0] == 0)
        new: list[int] = []
        for _, report in sink.taken:
            if report.seq not in new:
                new.append(report.seq)
        assert new == list(range(1, 41))

    play(scene())


def test_an_lc_whose_store_was_retired_takes_another_id_and_loses_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud = Cloud()
        dataset = document("d1", 1)
        cloud.put("edge-a", dataset)
        retired: list[str] = []

        def verdict(node: str, report: Report) -> Ack | ReportRefused:
            if report.store_id in retired:
                reason = RETIRED_STORE
                return ReportRefused(report.store_id, report.uid, report.seq, reason)
            return acknowledge(node, report)

        sink = ReportSink(verdict)
        async with running_gm(cloud, sink=sink) as gm, running_lc(tmp_path, gm.address) as lc:
            retired.append(lc.store.store_id)
            await lc.report(dataset, {"numberOfSamples": 3})
            await eventually(lambda: lc.store.backlog()[0] == 0)
            assert lc.store.store_id not in retired
            assert sink.taken[-1][1].body == b'{"numberOfSamples": 3}'
            assert lc.store.refusals()[0] == 0

    play(scene())


def test_gm_that_has_no_room_reads_no_more_and_loses_nothing(tmp_path: Path) -> None:
    async def scene() -> None:
        cloud, sink = Cloud(), ReportSink(acknowledge, capacity=3)
        datasets = [document(f"d{number}", number) for number in range(1, 51)]
        for each in datasets:
            cloud.put("edge-a", each)
        async with running_gm(cloud, sink=sink) as gm, running_lc(tmp_path, gm.address) as lc:
            await eventually(lambda: lc.is_up)
            for each in datasets:
                await lc.report(each, {"numberOfSamples": 1})
            await eventually(lambda: len(sink.taken) == 3)
            await never(lambda: len(sink.taken) > 3, within=0.3)
            # Objects go on meanwhile.
            cloud.put("edge-a", document("late", 99))
            await eventually(lambda: "late" in lc.names())
            sink.widen(1000)
            await eventually(lambda: lc.store.backlog()[0] == 0)
            assert len({report.uid for _, report in sink.taken}) == 50

    play(scene())
