"""Events: one for each transition, whoever tells it, and always legal."""

from datetime import UTC, datetime

from edge_sidecars.controllers.event_recorder import MAX_MESSAGE, MAX_NAME, event_body
from edge_sidecars.sedna_api.core.api_object import Document, Json
from gm.controller.events import event
from gm.core.engine.plan import EventNote
from tests.unit.gm.documents import document

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOTE = EventNote("Created", "pod j-train-0 was created")


def _told(job: Document, note: EventNote, instance: str, now: datetime) -> Json:
    return event_body(event(job, note), {"component": "sedna-gm", "host": instance}, now)


def test_two_leaders_who_decide_the_same_tell_one_event() -> None:
    job = document("federatedlearningjob", "j", version=7)
    later = datetime(2026, 1, 2, 3, 4, 9, tzinfo=UTC)
    assert _told(job, NOTE, "gm-0", NOW)["metadata"] == _told(job, NOTE, "gm-1", later)["metadata"]


def test_the_same_words_about_another_state_are_another_event() -> None:
    names = {
        _told(document("federatedlearningjob", "j", version=v), NOTE, "gm", NOW)["metadata"]["name"]
        for v in (7, 8)
    }
    assert len(names) == 2


def test_an_event_is_about_its_object_and_legal_however_long_things_are() -> None:
    job = document("federatedlearningjob", "j" * 253)
    told = _told(job, EventNote("Failed", "m" * 5000, is_warning=True), "gm-0", NOW)
    assert told["involvedObject"]["kind"] == "FederatedLearningJob"
    assert told["involvedObject"]["uid"] == job.uid
    assert told["type"] == "Warning"
    assert len(told["metadata"]["name"]) == MAX_NAME
    assert len(told["message"]) == MAX_MESSAGE
    assert told["firstTimestamp"] == "2026-01-02T03:04:05Z"
