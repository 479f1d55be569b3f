"""Names and labels of children."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.kinds import FEDERATED_LEARNING_JOB
from gm.core.names import child_name, label_value, service_name, worker_labels

LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

labels = st.from_regex(r"\A[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?\Z")
jobs = st.lists(labels, min_size=1, max_size=5).map(lambda it: ".".join(it)[:253].rstrip("-."))


def test_short_names_are_sednas() -> None:
    assert child_name("fl1", "train", "0") == "fl1-train-0"
    assert child_name("il1", "Train", "3", "0") == "il1-train-3-0"
    assert service_name("fl1", "Aggregation") == "fl1-aggregation"
    assert label_value("fl1") == "fl1"


@given(jobs)
def test_every_name_is_legal_and_short_enough(job: str) -> None:
    for name in (child_name(job, "inference", "123456", "0"), child_name(job, "aggregation", "0")):
        assert len(name) <= 63
        assert SUBDOMAIN.fullmatch(name), name
    service = service_name(job, "videoanalytics")
    assert len(service) <= 63
    assert SERVICE.fullmatch(service), service
    value = label_value(job)
    assert len(value) <= 63
    assert LABEL.fullmatch(value)


@given(jobs, jobs)
def test_two_jobs_never_share_a_name(one: str, other: str) -> None:
    if one != other:
        assert child_name(one, "train", "0") != child_name(other, "train", "0")
        assert service_name(one, "train") != service_name(other, "train")
        assert label_value(one) != label_value(other)


@pytest.mark.parametrize("job", ["1st", "a.b", "9.9"])
def test_a_service_has_a_name_that_services_may_have(job: str) -> None:
    assert SERVICE.fullmatch(service_name(job, "cloud"))


def test_a_job_whose_name_is_too_long_for_a_label_has_legal_labels() -> None:
    """Sedna's GM crashes on it, and again after each restart."""
    job = "j" * 200
    for value in worker_labels(FEDERATED_LEARNING_JOB, job, "u" * 36, "Train").values():
        assert len(value) <= 63
    assert label_value(job) != label_value("j" * 199)
