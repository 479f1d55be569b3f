"""When an answer to TokenRequest is kept, deleted and replayed, in virtual time."""

import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from edge_sidecars.apimachinery.status import forbidden
from relay_sidecar.core.token_request import BoundObjectReference, TokenRequestKey
from relay_sidecar.kept_tokens import kept_answers
from relay_sidecar.kept_tokens.kept_answers import (
    MAX_ANSWERS,
    AnswerChange,
    DeleteAnswers,
    KeepAnswer,
    KeptAnswer,
    KeptAnswers,
    PassOn,
    Refuse,
    Replay,
    TokenAnswer,
)
from tests.examples import play
from tests.unit.relay.kept_tokens.token_bodies import JSON, PROTOBUF, answer_body

RETAIN = 7 * 86400.0
HOUR = 3600.0
KEEPING = (201,)
DELETING = (401, 403, 404, 409, 422)
NEITHER = (200, 202, 302, 400, 410, 415, 429, 500, 502, 503, 504)


def key(
    uid: str = "pod-1",
    *,
    namespace: str = "shop",
    account: str = "default",
    audience: str = "",
    kind: str = "Pod",
    content_type: str = PROTOBUF,
) -> TokenRequestKey:
    return TokenRequestKey(
        namespace=namespace,
        service_account=account,
        service_account_uid="",
        audiences=(audience,) if audience else (),
        expiration_seconds=3607,
        bound_object_ref=BoundObjectReference(kind, "v1", f"name-of-{uid}", uid),
        content_type=content_type,
    )


def answer(token: str = "token", *, content_type: str = PROTOBUF) -> TokenAnswer:
    return TokenAnswer(
        content_type=content_type, body=answer_body(token, content_type=content_type)
    )


KEY = key()
ANSWER = answer()
# To a client that takes both formats.
REFUSED = TokenAnswer(content_type=JSON, body=forbidden("pods", why="no").body())


def with_answer(
    *,
    pods: Sequence[str] | None = ("pod-1",),
    at: float = 0.0,
    kept: TokenRequestKey = KEY,
    by: TokenAnswer = ANSWER,
) -> KeptAnswers:
    """Upstream has answered this node, and the pods stream is complete."""
    answers = KeptAnswers(retain=RETAIN)
    if pods is not None:
        answers.pods_listed(dict.fromkeys(pods), now=at)
    assert answers.answered(kept, by, status=201, is_this_node=True, now=at) == [
        KeepAnswer(kept, KeptAnswer(answer=by, asked_at=at))
    ]
    return answers


def asked_while_cut(
    answers: KeptAnswers, wanted: TokenRequestKey | None = KEY, *, now: float = 1.0
) -> PassOn | Replay | Refuse:
    return answers.requested(wanted, is_this_node=True, is_link_up=False, now=now)


def refused(outcome: PassOn | Replay | Refuse) -> str:
    """Why: 503 with Retry-After."""
    assert isinstance(outcome, Refuse)
    assert (outcome.status.code, outcome.status.reason) == (503, "ServiceUnavailable")
    assert outcome.status.retry_after is None
    return outcome.status.message


# ── replay ──


def test_while_the_link_is_up_every_request_is_passed_on() -> None:
    answers = with_answer()
    for wanted in (KEY, None):
        for is_this_node in (True, False):
            outcome = answers.requested(wanted, is_this_node=is_this_node, is_link_up=True, now=1.0)
            assert outcome == PassOn()


def test_while_cut_the_node_gets_the_newest_answer_byte_for_byte() -> None:
    answers = with_answer()
    newer = answer("newer")
    answers.answered(KEY, newer, status=201, is_this_node=True, now=5.0)
    assert asked_while_cut(answers) == Replay(newer, is_first=True)


def test_where_upstream_gives_no_byte_the_node_gets_the_kept_answer() -> None:
    outcome = with_answer().unanswered(KEY, is_this_node=True, now=5.0)
    assert outcome == Replay(ANSWER, is_first=True)


def test_an_answer_is_replayed_long_after_its_token_has_expired() -> None:
    answers = with_answer()
    assert asked_while_cut(answers, now=6 * 86400.0) == Replay(ANSWER, is_first=True)


def test_a_bearer_token_gets_nothing_that_was_kept() -> None:
    outcome = with_answer().requested(KEY, is_this_node=False, is_link_up=False, now=1.0)
    assert "client certificate" in refused(outcome)


def test_a_request_that_cannot_be_read_is_refused_while_cut() -> None:
    assert "cannot read" in refused(asked_while_cut(with_answer(), None))


@pytest.mark.parametrize(
    "other",
    [
        key("pod-2"),
        key(namespace="bank"),
        key(account="builder"),
        key(audience="vault"),
        key(content_type=JSON),
    ],
    ids=lambda other: f"{other.namespace}-{other.service_account}-{other.content_type}",
)
def test_where_nothing_is_kept_of_the_same_request_it_is_refused(other: TokenRequestKey) -> None:
    answers = with_answer(pods=["pod-1", "pod-2"])
    assert "no earlier answer" in refused(asked_while_cut(answers, other))


def test_a_replay_is_the_first_once_per_key_and_cut() -> None:
    answers = with_answer(pods=["pod-1", "pod-2"])
    answers.answered(key("pod-2"), ANSWER, status=201, is_this_node=True, now=0.0)
    played = [
        asked_while_cut(answers),
        asked_while_cut(answers),
        asked_while_cut(answers, key("pod-2")),
    ]
    assert played == [Replay(ANSWER, True), Replay(ANSWER, False), Replay(ANSWER, True)]
    answers.link_restored()
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


def test_after_any_answer_of_upstream_the_next_replay_is_the_first_again() -> None:
    answers = with_answer()
    asked_while_cut(answers)
    answers.answered(KEY, ANSWER, status=500, is_this_node=True, now=2.0)
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


# ── what upstream answers ──


@pytest.mark.parametrize("status", DELETING)
def test_what_upstream_refuses_is_deleted_and_not_replayed(status: int) -> None:
    answers = with_answer()
    changes = answers.answered(KEY, REFUSED, status=status, is_this_node=True, now=1.0)
    assert changes == [DeleteAnswers(frozenset({KEY}))]
    assert "no earlier answer" in refused(asked_while_cut(answers))
    assert answers.answered(KEY, REFUSED, status=status, is_this_node=True, now=2.0) == []


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html", b"log in"),
        ("text/plain; charset=utf-8", b"log in"),
        ("", b"log in"),
        (JSON, b'{"message":"no route matched"}'),
    ],
)
@pytest.mark.parametrize("status", DELETING)
def test_what_a_gateway_or_a_portal_refuses_deletes_nothing(
    status: int, kind: str, body: bytes
) -> None:
    answers = with_answer()
    page = TokenAnswer(content_type=kind, body=body)
    assert answers.answered(KEY, page, status=status, is_this_node=True, now=1.0) == []
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


@pytest.mark.parametrize("status", NEITHER)
def test_any_other_answer_of_upstream_changes_nothing(status: int) -> None:
    answers = with_answer()
    newer = answer("newer")
    assert answers.answered(KEY, newer, status=status, is_this_node=True, now=1.0) == []
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


@pytest.mark.parametrize("status", [*KEEPING, *DELETING])
def test_an_answer_to_a_bearer_token_changes_nothing(status: int) -> None:
    answers = with_answer()
    newer = answer("newer")
    assert answers.answered(KEY, newer, status=status, is_this_node=False, now=1.0) == []
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


@pytest.mark.parametrize(
    "odd",
    [
        TokenAnswer(content_type=PROTOBUF, body=b"<html>login</html>"),
        answer(""),
        answer(content_type=JSON),
        TokenAnswer(content_type="text/html", body=ANSWER.body),
    ],
    ids=["garbage", "no-token", "other-form", "html"],
)
def test_a_201_that_is_no_token_in_the_wanted_form_replaces_nothing(odd: TokenAnswer) -> None:
    answers = with_answer()
    assert answers.answered(KEY, odd, status=201, is_this_node=True, now=1.0) == []
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


def test_an_answer_in_json_is_kept_for_those_who_want_json() -> None:
    in_json = answer(content_type=JSON)
    answers = with_answer(kept=key(content_type=JSON), by=in_json)
    assert asked_while_cut(answers, key(content_type=JSON)) == Replay(in_json, is_first=True)


@pytest.mark.parametrize("unbound", [key(kind="Node"), key("")], ids=["node", "by-name"])
def test_a_token_that_ends_with_no_known_pod_is_not_kept(unbound: TokenRequestKey) -> None:
    answers = KeptAnswers(retain=RETAIN)
    assert answers.answered(unbound, ANSWER, status=201, is_this_node=True, now=0.0) == []
    assert len(answers) == 0


def test_no_answer_and_no_key_shows_a_token() -> None:
    shown = repr(KeepAnswer(KEY, KeptAnswer(answer=answer("s3cr3t"), asked_at=0.0)))
    assert "s3cr3t" not in shown
    assert "body" not in shown


# ── pods ──


def test_before_the_pods_are_known_nothing_is_replayed() -> None:
    answers = with_answer(pods=None)
    assert "pods of this node are not known" in refused(asked_while_cut(answers))
    answers.pods_listed({"pod-1": None}, now=1.0)
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)


def test_while_the_pods_stream_is_incomplete_nothing_is_replayed() -> None:
    answers = with_answer()
    answers.pods_incomplete()
    assert "pods of this node are not known" in refused(asked_while_cut(answers))


def test_a_list_without_the_pod_deletes_its_answer() -> None:
    answers = with_answer()
    answers.pods_listed({"pod-1": None, "pod-2": None}, now=0.0)
    answers.answered(key("pod-2"), ANSWER, status=201, is_this_node=True, now=0.0)
    assert answers.pods_listed({"pod-2": None}, now=1.0) == [DeleteAnswers(frozenset({KEY}))]
    assert isinstance(asked_while_cut(answers), Refuse)
    assert asked_while_cut(answers, key("pod-2")) == Replay(ANSWER, is_first=True)


def test_an_answer_that_comes_after_the_end_of_its_pod_is_not_replayed_and_swept() -> None:
    answers = with_answer(pods=["pod-2"])
    assert "'pod-1' is not on this node" in refused(asked_while_cut(answers))
    assert answers.swept(now=60.0) == [DeleteAnswers(frozenset({KEY}))]


def test_a_pod_that_is_seen_later_gets_what_was_kept_before() -> None:
    answers = with_answer(pods=["pod-2"])
    assert answers.pods_listed({"pod-1": None, "pod-2": None}, now=1.0) == []
    assert asked_while_cut(answers) == Replay(ANSWER, is_first=True)
    assert answers.swept(now=60.0) == []


def test_past_the_grace_of_its_pods_deletion_an_answer_is_not_replayed() -> None:
    answers = with_answer()
    (kept,) = answers.pods_listed({"pod-1": 30.0}, now=100.0)
    assert kept == KeepAnswer(KEY, KeptAnswer(answer=ANSWER, asked_at=0.0, ends_at=130.0))
    assert asked_while_cut(answers, now=129.9) == Replay(ANSWER, is_first=True)
    assert "should have ended" in refused(asked_while_cut(answers, now=130.0))


def test_a_deletion_can_be_hastened_but_not_be_put_off() -> None:
    answers = with_answer()
    answers.pods_listed({"pod-1": 30.0}, now=100.0)
    assert answers.pods_listed({"pod-1": 30.0}, now=110.0) == []
    assert answers.pods_listed({"pod-1": None}, now=111.0) == []
    answers.pods_listed({"pod-1": 30.0}, now=112.0)
    assert isinstance(asked_while_cut(answers, now=130.0), Refuse)
    answers.pods_listed({"pod-1": 1.0}, now=113.0)
    assert isinstance(asked_while_cut(answers, now=114.0), Refuse)


def test_a_newer_answer_does_not_put_off_the_deletion_of_its_pod() -> None:
    answers = with_answer()
    answers.pods_listed({"pod-1": 30.0}, now=100.0)
    answers.pods_incomplete()
    answers.answered(KEY, ANSWER, status=201, is_this_node=True, now=120.0)
    answers.pods_listed({"pod-1": 30.0}, now=121.0)
    assert isinstance(asked_while_cut(answers, now=130.0), Refuse)


def test_the_end_of_a_pod_is_known_after_a_restart() -> None:
    answers = with_answer()
    (kept,) = answers.pods_listed({"pod-1": 30.0}, now=100.0)
    assert isinstance(kept, KeepAnswer)
    again = KeptAnswers(retain=RETAIN)
    again.restore({kept.key: kept.kept}, now=120.0)
    again.pods_listed({"pod-1": 30.0}, now=121.0)
    assert isinstance(asked_while_cut(again, now=129.0), Replay)
    assert isinstance(asked_while_cut(again, now=131.0), Refuse)


# ── age, number ──


def test_what_is_not_asked_for_in_its_time_is_deleted() -> None:
    answers = with_answer()
    assert answers.swept(now=RETAIN - 1.0) == []
    assert answers.swept(now=RETAIN) == [DeleteAnswers(frozenset({KEY}))]


@pytest.mark.parametrize("is_link_up", [True, False], ids=["online", "cut"])
def test_what_is_asked_for_stays_and_the_disk_learns_of_it_now_and_then(is_link_up: bool) -> None:
    answers = with_answer()
    written = 0
    for hour in range(1, 24 * 30):
        now = hour * HOUR
        answers.requested(KEY, is_this_node=True, is_link_up=is_link_up, now=now)
        changes = answers.swept(now=now)
        assert all(isinstance(change, KeepAnswer) for change in changes)
        written += len(changes)
    assert len(answers) == 1
    assert 30 / 7 * kept_answers.KEEPS_PER_RETAIN * 0.8 < written < 30 / 7 * 49


def test_a_bearer_token_that_asks_keeps_nothing_alive() -> None:
    answers = with_answer()
    answers.requested(KEY, is_this_node=False, is_link_up=False, now=RETAIN - 1.0)
    assert answers.swept(now=RETAIN) == [DeleteAnswers(frozenset({KEY}))]


def test_after_a_restart_the_time_without_being_asked_for_goes_on() -> None:
    again = KeptAnswers(retain=RETAIN)
    assert again.restore({KEY: KeptAnswer(answer=ANSWER, asked_at=10.0)}, now=HOUR) == []
    assert again.swept(now=RETAIN + 10.0) == [DeleteAnswers(frozenset({KEY}))]
    late = KeptAnswers(retain=RETAIN)
    kept = {KEY: KeptAnswer(answer=ANSWER, asked_at=10.0)}
    assert late.restore(kept, now=2 * RETAIN) == [DeleteAnswers(frozenset({KEY}))]


def test_where_the_clock_was_not_saved_a_kept_answer_counts_as_asked_for_now() -> None:
    again = KeptAnswers(retain=RETAIN)
    again.restore({KEY: KeptAnswer(answer=ANSWER, asked_at=10 * RETAIN)}, now=5.0)
    assert again.swept(now=RETAIN + 5.0) == [DeleteAnswers(frozenset({KEY}))]


def test_of_more_answers_than_there_is_room_for_the_one_asked_for_longest_ago_goes() -> None:
    answers = KeptAnswers(retain=RETAIN)
    for number in range(MAX_ANSWERS):
        answers.answered(key(str(number + 1)), ANSWER, status=201, is_this_node=True, now=number)
    answers.requested(key("1"), is_this_node=True, is_link_up=True, now=MAX_ANSWERS)
    again = answers.answered(key("5"), ANSWER, status=201, is_this_node=True, now=MAX_ANSWERS)
    one_more = answers.answered(KEY, ANSWER, status=201, is_this_node=True, now=MAX_ANSWERS)
    assert [type(change) for change in again] == [KeepAnswer]
    assert one_more[0] == DeleteAnswers(frozenset({key("2")}))
    assert len(answers) == MAX_ANSWERS


# ── all of it, in any order ──

PODS = ("pod-1", "pod-2")
KEYS = [key("pod-1"), key("pod-1", audience="vault"), key("pod-2"), key("pod-2", account="builder")]
MODEL_RETAIN = 1000.0


class TokenRequests(RuleBasedStateMachine):
    """Kubelet, other callers, a link that comes and goes, pods, restarts. The model knows only what
    upstream answered, and which pods there are; `disk` is what the commands left."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.answers = KeptAnswers(retain=MODEL_RETAIN)
        self.disk: dict[TokenRequestKey, KeptAnswer] = {}
        self.newest: dict[TokenRequestKey, TokenAnswer] = {}
        self.asked_at: dict[TokenRequestKey, float] = {}
        # uid: when its deletion is overdue.
        self.pods: dict[str, float] = dict.fromkeys(PODS, math.inf)
        self.terminating: set[str] = set()
        self.is_complete = False
        self.replayed: set[TokenRequestKey] = set()
        self.count = 0

    # ── requests ──

    @rule(wanted=st.sampled_from(KEYS))
    def renew(self, wanted: TokenRequestKey) -> None:
        self._answered(wanted, is_this_node=True, status=201, is_token=True)

    @rule(wanted=st.sampled_from(KEYS), status=st.sampled_from([201, *DELETING]))
    def without_token(self, wanted: TokenRequestKey, status: int) -> None:
        self._answered(wanted, is_this_node=True, status=status, is_token=False)

    @rule(wanted=st.sampled_from(KEYS))
    def ask_while_cut(self, wanted: TokenRequestKey) -> None:
        self._unanswered(wanted, is_this_node=True, is_link_up=False)

    @rule(
        wanted=st.sampled_from(KEYS),
        is_this_node=st.booleans(),
        status=st.sampled_from([*KEEPING, *DELETING, *NEITHER]),
        is_token=st.booleans(),
    )
    def answered(
        self, wanted: TokenRequestKey, is_this_node: bool, status: int, is_token: bool
    ) -> None:
        self._answered(wanted, is_this_node=is_this_node, status=status, is_token=is_token)

    @rule(
        wanted=st.sampled_from([*KEYS, None]),
        is_this_node=st.booleans(),
        is_link_up=st.booleans(),
    )
    def unanswered(
        self, wanted: TokenRequestKey | None, is_this_node: bool, is_link_up: bool
    ) -> None:
        self._unanswered(wanted, is_this_node=is_this_node, is_link_up=is_link_up)

    def _answered(
        self, wanted: TokenRequestKey, *, is_this_node: bool, status: int, is_token: bool
    ) -> None:
        self.count += 1
        by = REFUSED if status in DELETING else answer(f"token-{self.count}" if is_token else "")
        asked = self.answers.requested(
            wanted, is_this_node=is_this_node, is_link_up=True, now=self.now
        )
        assert asked == PassOn()
        self.perform(
            self.answers.answered(
                wanted, by, status=status, is_this_node=is_this_node, now=self.now
            )
        )
        if not is_this_node:
            return
        self.replayed.discard(wanted)
        if status in DELETING:
            self._forget(lambda key: key == wanted)
        if status == 201 and is_token:
            self.newest[wanted] = by
        self.asked_at[wanted] = self.now

    def _unanswered(
        self, wanted: TokenRequestKey | None, *, is_this_node: bool, is_link_up: bool
    ) -> None:
        outcome = self.answers.requested(
            wanted, is_this_node=is_this_node, is_link_up=is_link_up, now=self.now
        )
        if is_link_up:
            assert outcome == PassOn()
            outcome = self.answers.unanswered(wanted, is_this_node=is_this_node, now=self.now)
        expected = self.newest.get(wanted) if wanted is not None and is_this_node else None
        if wanted is None or expected is None or not self.is_there(wanted):
            assert isinstance(outcome, Refuse)
        else:
            assert outcome == Replay(expected, is_first=wanted not in self.replayed)
            self.replayed.add(wanted)
        if wanted is not None and is_this_node:
            self.asked_at[wanted] = self.now

    # ── what else happens ──

    @initialize()
    def begin(self) -> None:
        self._list(PODS)

    @rule()
    def pods_listed(self) -> None:
        self._list(PODS)

    @rule(
        what=st.sampled_from(["link", "relist", "relist", "incomplete", "restart", "restart"]),
        uid=st.sampled_from(PODS),
    )
    def shake(self, what: str, uid: str) -> None:
        match what:
            case "link":
                self.answers.link_restored()
                self.replayed.clear()
            case "relist":
                self._list([uid])
            case "incomplete":
                self.answers.pods_incomplete()
                self._incomplete()
            case "restart":
                self._restart()

    @rule(uid=st.sampled_from(PODS), grace=st.sampled_from([None, 0.0, 5.0, 30.0]))
    @precondition(lambda self: self.is_complete)
    def pod_changed(self, uid: str, grace: float | None) -> None:
        """A uid is never used again, but the machine must not count on it."""
        self._see(uid, grace)
        pods = dict.fromkeys(self.pods) | {uid: grace}
        self.perform(self.answers.pods_listed(pods, now=self.now))
        self._forget(lambda key: key.pod_uid not in self.pods)

    @rule(seconds=st.sampled_from([0.5, 5.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(seconds=st.sampled_from([0.0, 60.0, MODEL_RETAIN / 2, MODEL_RETAIN]))
    def sweep(self, seconds: float) -> None:
        self.now += seconds
        self.perform(self.answers.swept(now=self.now))
        self._forget_idle()
        if self.is_complete:
            self._forget(lambda key: key.pod_uid not in self.pods)

    def _list(self, uids: Sequence[str]) -> None:
        self.pods = {uid: end for uid, end in self.pods.items() if uid in uids}
        self.terminating &= set(uids)
        graces = {uid: 30.0 if uid in self.terminating else None for uid in uids}
        for uid, grace in graces.items():
            self._see(uid, grace)
        self.perform(self.answers.pods_listed(graces, now=self.now))
        self.is_complete = True
        self._forget(lambda key: key.pod_uid not in self.pods)

    def _see(self, uid: str, grace: float | None) -> None:
        former = self.pods.get(uid, math.inf)
        self.pods[uid] = former if grace is None else min(former, self.now + grace)
        if grace is not None:
            self.terminating.add(uid)

    def _incomplete(self) -> None:
        self.is_complete = False
        self._forget(lambda _: False)

    def _restart(self) -> None:
        """After a sweep what is persisted is late by a part of `retain` at most."""
        self.sweep(0.0)
        for wanted, kept in self.disk.items():
            assert 0 <= self.asked_at[wanted] - kept.asked_at <= MODEL_RETAIN / 48
            self.asked_at[wanted] = kept.asked_at
        self.answers = KeptAnswers(retain=MODEL_RETAIN)
        self.perform(self.answers.restore(dict(self.disk), now=self.now))
        self._incomplete()
        self.replayed.clear()
        self._forget_idle()

    # ── what holds ──

    @invariant()
    def the_disk_has_the_newest_answers_and_nothing_else(self) -> None:
        assert {key: kept.answer for key, kept in self.disk.items()} == self.newest

    def is_there(self, wanted: TokenRequestKey) -> bool:
        return self.is_complete and self.now < self.pods.get(wanted.pod_uid, -math.inf)

    def _forget_idle(self) -> None:
        self._forget(lambda key: self.now - self.asked_at[key] >= MODEL_RETAIN)

    def _forget(self, is_gone: Callable[[TokenRequestKey], bool]) -> None:
        """While the pods are not known, only kept answers know when their pods end."""
        self.newest = {key: by for key, by in self.newest.items() if not is_gone(key)}
        if not self.is_complete:
            known = {key.pod_uid for key in self.newest}
            self.pods |= {uid: math.inf for uid in self.pods if uid not in known}

    def perform(self, changes: Sequence[AnswerChange]) -> None:
        for change in changes:
            match change:
                case KeepAnswer(kept_key, kept):
                    self.disk[kept_key] = kept
                case DeleteAnswers(keys):
                    assert keys
                    for deleted in keys:
                        del self.disk[deleted]


def test_nothing_is_replayed_but_the_newest_to_this_node_for_a_pod_that_is_there() -> None:
    run_state_machine_as_test(TokenRequests, settings=play(150))
