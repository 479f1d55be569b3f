"""The judge of the nemesis finds every broken rule that it knows, and no kept one."""

from typing import Any, Self

import pytest

from tools.harness.controlplane.audit import RESPONSE_COMPLETE, AuditEvent
from tools.harness.pods.observers.history import ANNOTATION
from tools.harness.pods.observers.observer import Ready
from tools.nemesis.elector.history import HOLD, RESUMED, SWITCHOVER, History
from tools.nemesis.elector.verdict import Rules, Worked, judge, transitions

RULES = Rules(4.0)
VALIDITY = RULES.validity
ADMIN = "controlplane-admin"
UID = "11111111-aaaa"


class Log:
    """An audit log that is written by hand. Versions count from 1; the wall clock is BOOTTIME."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self._version = 0

    def write(
        self,
        writer: str,
        at: float,
        holder: str,
        *,
        marked: str | None = None,
        duration: int = 4,
        verb: str = "update",
        uid: str = UID,
        status: int = 200,
        is_blind: bool = False,
        spec: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> Self:
        base = str(self._version)
        self._version += status < 300
        written = spec or {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": f"{at:.6f}",
        }
        metadata: dict[str, Any] = {"uid": uid, "resourceVersion": str(self._version)}
        metadata["annotations"] = {**(annotations or {})}
        if marked is not None:
            metadata["annotations"][ANNOTATION] = marked
        asked = {} if is_blind or verb == "create" else {"uid": uid, "resourceVersion": base}
        self._add(
            writer,
            at,
            verb,
            status,
            {"metadata": asked, "spec": written},
            {"metadata": metadata, "spec": written},
        )
        return self

    def held(self, writer: str, at: float, **how: Any) -> Self:
        """As an elector acquires or renews."""
        return self.write(writer, at, writer, marked=writer, **how)

    def delete(self, at: float, uid: str = UID) -> Self:
        self._add(ADMIN, at, "delete", 200, None, {"details": {"uid": uid}})
        return self

    def _add(
        self, writer: str, at: float, verb: str, status: int, asked: Any, answered: Any
    ) -> None:
        agent = f"elector-sidecar/1.2.3 ({writer})" if writer.startswith("pod-") else writer
        self.events.append(
            AuditEvent(
                audit_id=str(len(self.events)),
                stage=RESPONSE_COMPLETE,
                verb=verb,
                user="",
                user_agent=agent,
                request_uri="",
                api_group="coordination.k8s.io",
                resource="leases",
                subresource="",
                namespace="ns",
                name="controller",
                status=status,
                received_at=at,
                stage_at=at,
                request_object=asked,
                response_object=answered if status < 300 else None,
            )
        )


def findings(
    log: Log, *answers: Ready, rules: Rules = RULES, work: tuple[Worked, ...] = ()
) -> list[str]:
    verdict = judge(History(log.events), answers, rules, offset=0.0, work=work)
    return [each.what for each in verdict.findings]


def started() -> Log:
    """An empty Lease, which pod-a acquires at 1.0."""
    return Log().write(ADMIN, 0.0, "", verb="create").held("pod-a", 1.0)


def ready(pod: str, token: int, at: float, valid_until: float) -> Ready:
    return Ready(pod, pod, token, sent=at, received=at + 0.01, valid_until=valid_until)


@pytest.mark.parametrize(("at", "count"), [(5.9, 1), (6.0, 0)])
def test_an_elector_is_followed_after_its_duration_and_not_before(at: float, count: int) -> None:
    assert len(findings(started().held("pod-a", 2.0).held("pod-b", at))) == count


@pytest.mark.parametrize(("at", "count"), [(6.7, 1), (6.8, 0)])
def test_a_stranger_is_followed_a_fifth_later(at: float, count: int) -> None:
    log = started().write("client-go", 2.0, "peer").held("pod-b", at)
    assert len(findings(log)) == count


def test_an_edit_of_metadata_is_no_sign_of_life_and_a_shortened_duration_does_not_count() -> None:
    spec = {"holderIdentity": "pod-a", "leaseDurationSeconds": 4, "renewTime": "1.000000"}
    log = started().write(ADMIN, 4.0, "", spec=spec, marked="pod-a").held("pod-b", 5.0)
    assert not findings(log)
    log = started().write(ADMIN, 2.0, "pod-a", marked="pod-a", duration=1).held("pod-b", 5.0)
    assert len(findings(log)) == 1


def test_a_released_lease_is_free_at_once_and_a_blanked_one_is_not() -> None:
    released = started().write("pod-a", 2.0, "").held("pod-b", 2.1)
    assert not findings(released)
    blanked = started().write(ADMIN, 2.0, "", marked="pod-a", duration=1)
    assert len(findings(blanked.held("pod-b", 5.9))) == 1
    waited = started().write(ADMIN, 2.0, "", marked="pod-a", duration=1).held("pod-b", 6.0)
    assert not findings(waited)
    back = started().write(ADMIN, 2.0, "", marked="pod-a", duration=1).held("pod-a", 2.1)
    assert not findings(back)


def test_a_stranger_that_followed_an_elector_releases_beside_its_mark() -> None:
    log = started().write("client-go", 2.0, "peer", marked="pod-a")
    assert not findings(log.write("client-go", 3.0, "", marked="pod-a").held("pod-b", 3.1))


def test_a_deleted_lease_is_waited_out_except_by_its_holder() -> None:
    log = started().delete(2.0).held("pod-b", 5.0, verb="create", uid="2", status=201)
    assert len(findings(log)) == 1
    log = started().delete(2.0).held("pod-b", 6.0, verb="create", uid="2", status=201)
    assert not findings(log)
    log = started().delete(2.0).held("pod-a", 2.1, verb="create", uid="2", status=201)
    assert not findings(log)


def test_a_recreated_lease_releases_nobody_who_was_known() -> None:
    log = started().delete(2.0).write(ADMIN, 2.1, "", verb="create", uid="2")
    rules = Rules(4.0, frozenset({"2"}))
    assert len(findings(log.held("pod-b", 3.0, uid="2"), rules=rules)) == 1
    log = started().delete(2.0).write(ADMIN, 2.1, "", verb="create", uid="2")
    assert not findings(log.held("pod-a", 2.2, uid="2"), rules=rules)


@pytest.mark.parametrize(("at", "count"), [(5.9, 1), (6.0, 0)])
def test_a_reserved_lease_is_taken_only_when_the_deleted_one_has_expired(
    at: float, count: int
) -> None:
    log = started().delete(2.0).write("pod-c", 2.5, "", marked="pod-c", verb="create", uid="2")
    assert len(findings(log.held("pod-b", at, uid="2"))) == count


def test_the_holder_of_a_deleted_lease_takes_the_reserved_one_at_once() -> None:
    log = started().delete(2.0).write("pod-c", 2.5, "", marked="pod-c", verb="create", uid="2")
    assert not findings(log.held("pod-a", 2.6, uid="2"))


def test_foreign_holders_are_not_blanked_and_no_write_is_blind() -> None:
    assert len(findings(started().write("pod-b", 2.0, ""))) == 1
    assert len(findings(started().write("pod-b", 9.0, "pod-c"))) == 1
    assert len(findings(started().held("pod-b", 9.0, is_blind=True, status=409))) == 1


def test_two_holders_at_once_are_seen() -> None:
    log = started().held("pod-b", 5.1)
    first, late = ready("pod-a", 2, 1.1, 4.5), ready("pod-a", 2, 5.3, 5.4)
    second = ready("pod-b", 3, 5.2, 8.6)
    assert not findings(log, first, second)
    assert any("two holders" in what for what in findings(log, first, second, late))


def test_a_200_needs_a_write_that_stands_for_it() -> None:
    log = started()
    assert not findings(log, ready("pod-a", 2, 1.1, 1.0 + VALIDITY))
    assert len(findings(log, ready("pod-a", 2, 1.1, 1.1 + VALIDITY))) == 1
    assert len(findings(log, ready("pod-a", 2, 0.9, 4.0))) == 1
    assert len(findings(log, ready("pod-a", 2, 4.6, 4.5))) == 1
    assert len(findings(log, ready("pod-b", 2, 1.1, 4.5))) == 1


def test_a_write_that_may_have_been_applied_stands_for_a_200_and_a_refused_one_does_not() -> None:
    valid = ready("pod-a", 2, 2.1, 2.0 + VALIDITY)
    assert not findings(started().held("pod-a", 2.0, status=504), valid)
    assert findings(started().held("pod-a", 2.0, status=409), valid)


def test_writes_over_versions_that_the_log_lacks_are_counted_and_not_judged() -> None:
    log = started()
    del log.events[1]
    verdict = judge(History(log.held("pod-b", 2.0).events), [], RULES, offset=0.0)
    assert (verdict.findings, verdict.unjudged) == ([], 1)


def test_transitions_are_changes_of_holder_and_a_theft_in_between_is_none() -> None:
    log = started().write(ADMIN, 2.0, "bogus-1").held("pod-a", 9.0).held("pod-b", 20.0)
    assert transitions(History(log.events), without="bogus") == 2


HELD = {HOLD: '{"id":"a","until":"1970-01-01T00:00:08Z"}'}


@pytest.mark.parametrize(("at", "count"), [(7.9, 1), (8.1, 0)])
def test_what_is_held_is_taken_by_no_elector(at: float, count: int) -> None:
    log = started().write("pod-a", 2.0, "", annotations=HELD)
    assert len(findings(log.held("pod-b", at))) == count


def test_a_hold_that_asks_nothing_keeps_no_elector_out() -> None:
    for text in ("7", '{"id":"a","until":"9999-01-01T00:00:00Z"}', '{"until":7,"id":"a"}'):
        log = started().write("pod-a", 2.0, "", annotations={HOLD: text})
        assert not findings(log.held("pod-b", 2.1))


def test_a_leader_that_leads_on_in_spite_of_a_hold_is_found() -> None:
    log = started().held("pod-a", 1.5).write(ADMIN, 2.0, "pod-a", marked="pod-a", annotations=HELD)
    log.held("pod-a", 4.9, annotations=HELD)
    soon, late = ready("pod-a", 2, 3.0, 5.0), ready("pod-a", 2, 5.9, 8.4)
    after = ready("pod-a", 2, 8.1, 8.4)
    assert not findings(log, soon, after)
    assert ["after a hold" in it for it in findings(log, soon, late)] == [True]


@pytest.mark.parametrize(
    ("who", "at", "count"), [("pod-b_1", 4.9, 1), ("pod-b_1", 5.1, 0), ("pod-c_1", 2.1, 0)]
)
def test_a_release_is_for_the_named_pod_first(who: str, at: float, count: int) -> None:
    text = '{"to":"pod-c","id":"a","until":"1970-01-01T00:01:00Z","released":"2.000000"}'
    released = {"holderIdentity": "", "renewTime": "2.000000"}
    log = started().write("pod-a", 2.0, "", spec=released, annotations={SWITCHOVER: text})
    assert len(findings(log.held(who, at))) == count


@pytest.mark.parametrize(("at", "count"), [(40.0, 1), (62.0, 0)])
def test_a_priority_asks_a_minute_after_the_last_change_of_holder(at: float, count: int) -> None:
    spec = {"holderIdentity": "pod-a", "acquireTime": "1970-01-01T00:00:01Z"}
    log = started().write("pod-a", 39.0, "pod-a", spec=spec)
    log.write("pod-b", at, "", spec=spec, annotations={SWITCHOVER: "{}"})
    assert len(findings(log)) == count
    verdict = judge(History(log.events), [], RULES, offset=0.0)
    assert verdict.asked == 1


def test_a_standby_changes_nothing_else_of_anothers_lease() -> None:
    spec = {"holderIdentity": "pod-a", "acquireTime": "1970-01-01T00:00:01Z"}
    log = started().write("pod-a", 39.0, "pod-a", spec=spec)
    log.write("pod-b", 90.0, "", spec=spec, annotations={SWITCHOVER: "{}", ANNOTATION: "pod-b"})
    assert len(findings(log)) == 1


@pytest.mark.parametrize(("who", "count"), [("pod-a_2", 0), ("pod-b_1", 1)])
def test_a_process_goes_on_for_another_one_of_its_pod_alone(who: str, count: int) -> None:
    log = Log().write(ADMIN, 0.0, "", verb="create").held("pod-a_1", 1.0)
    log.held(who, 4.9, annotations={RESUMED: "4.5"})
    assert len(findings(log)) == count
    assert judge(History(log.events), [], RULES, offset=0.0).resumed == 1 - count


def test_a_program_that_works_beside_the_next_leader_is_found() -> None:
    log = started().held("pod-b", 5.1)
    next_leader = ready("pod-b", 3, 5.2, 8.6)
    early, late = Worked("pod-a", 2, 5.1), Worked("pod-a", 2, 5.3)
    assert not findings(log, next_leader, work=(early,))
    assert len(findings(log, next_leader, work=(early, late))) == 1
    assert len(findings(log, work=(late, Worked("pod-b", 3, 5.25)))) == 1


def test_a_program_that_ends_beside_the_next_term_of_its_own_pod_is_one_program() -> None:
    log = started()
    again = ready("pod-a", 3, 1.3, 4.5)
    assert not [it for it in findings(log, again, work=(Worked("pod-a", 2, 1.4),)) if "two" in it]
    two = (Worked("pod-a", 2, 1.4), Worked("pod-a", 3, 1.3))
    assert len([it for it in findings(log, work=two) if "two" in it]) == 1
