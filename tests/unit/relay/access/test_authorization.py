"""For how long what upstream said about a caller stands: online, cut off, and after a restart."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.runtime.formats.bearer import bearer_token
from relay_sidecar.core.access.authorization import (
    DENIED_TTL,
    MAX_TOKENS,
    REJECTED_TTL,
    AuthorizationCache,
    saved_clock,
)
from relay_sidecar.core.access.authorizer import (
    Attributes,
    Authorization,
    Decision,
    Undecided,
    UserInfo,
)
from relay_sidecar.core.access.expiry import KEEPS_PER_LIFE, ExpiringMap, OfflineClock

TTL, OFFLINE_TTL = 60.0, 86400.0
SALT = b"salt"
TOKEN = "opaque-token"
ANNA = UserInfo("anna", uid="1", groups=("dev", "ops"), extra=(("scope", ("a",)),))
LIST_PODS = Attributes(verb="list", version="v1", resource="pods", namespace="ns")


class World:
    """Decisions and the boot clock; `kept`: of an earlier life."""

    def __init__(
        self,
        *,
        salt: bytes = SALT,
        boot: str = "a",
        now: float = 1000.0,
        kept: Mapping[str, bytes] | None = None,
        offline_ttl: float = OFFLINE_TTL,
    ) -> None:
        saved = saved_clock(kept or {})
        clock = OfflineClock(boot_id=boot, now=now, saved=saved)
        self.decisions = AuthorizationCache(
            salt=salt, ttl=TTL, offline_ttl=offline_ttl, clock=clock
        )
        self.decisions.restore(kept or {}, now=now)
        self.now = now

    def judge(
        self, *, is_online: bool = True, token: str = TOKEN, attributes: Attributes = LIST_PODS
    ) -> Authorization:
        return self.decisions.judge(token, attributes, now=self.now, is_online=is_online)

    def learn(
        self,
        *,
        allowed: bool = True,
        token: str = TOKEN,
        user: UserInfo = ANNA,
        attributes: Attributes = LIST_PODS,
        reason: str = "",
    ) -> None:
        self.decisions.identified(token, user, now=self.now)
        self.decisions.decided(token, attributes, allowed=allowed, reason=reason, now=self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def kept(self) -> dict[str, bytes | None]:
        return self.decisions.take_unkept(now=self.now)


@pytest.fixture
def world() -> World:
    return World()


def is_allowed(verdict: Authorization) -> bool:
    return isinstance(verdict, Decision) and verdict.allowed


# ── online ──


def test_of_an_unknown_caller_both_is_asked(world: World) -> None:
    assert world.judge() == Undecided.NEEDS_IDENTITY


def test_what_upstream_said_stands_for_the_ttl_and_no_longer(world: World) -> None:
    world.learn()
    asked_at = world.now
    world.pass_time(TTL - 1)
    assert world.judge() == Decision(True, until=asked_at + TTL)
    world.pass_time(1)
    assert world.judge() == Undecided.NEEDS_IDENTITY


def test_a_denial_tells_its_reason_and_stands_for_less(world: World) -> None:
    world.learn(allowed=False, reason="policy")
    asked_at = world.now
    world.pass_time(DENIED_TTL - 1)
    assert world.judge() == Decision(False, asked_at + DENIED_TTL, "anna", "policy")
    world.pass_time(1)
    assert world.judge() == Undecided.NEEDS_DECISION
    assert not is_allowed(world.judge(is_online=False))


def test_a_denial_ends_an_earlier_permission_at_once(world: World) -> None:
    world.learn()
    world.learn(allowed=False)
    assert not is_allowed(world.judge())
    assert not is_allowed(world.judge(is_online=False))


def test_the_older_of_both_facts_counts(world: World) -> None:
    world.learn()
    world.pass_time(TTL / 2)
    world.decisions.decided(TOKEN, LIST_PODS, allowed=True, reason="", now=world.now)
    assert world.judge() == Decision(True, until=world.now + TTL / 2)


def test_of_a_known_caller_only_the_new_action_is_asked(world: World) -> None:
    world.learn()
    assert world.judge(attributes=replace(LIST_PODS, verb="watch")) == Undecided.NEEDS_DECISION


@pytest.mark.parametrize("name", [field.name for field in fields(Attributes)])
def test_a_decision_is_about_exactly_one_action(world: World, name: str) -> None:
    world.learn()
    assert world.judge(attributes=replace(LIST_PODS, **{name: "other"})) == Undecided.NEEDS_DECISION


@pytest.mark.parametrize(
    "other",
    [
        replace(ANNA, name="anne"),
        replace(ANNA, uid="2"),
        replace(ANNA, groups=("dev",)),
        replace(ANNA, extra=()),
        replace(ANNA, groups=("dev", "ops", "scope"), extra=()),
    ],
)
def test_a_decision_is_about_exactly_one_user(world: World, other: UserInfo) -> None:
    world.learn()
    world.decisions.identified("another", other, now=world.now)
    assert world.judge(token="another") == Undecided.NEEDS_DECISION


def test_two_tokens_of_one_user_share_decisions(world: World) -> None:
    world.learn()
    world.decisions.identified("rotated", ANNA, now=world.now)
    assert is_allowed(world.judge(token="rotated"))


def test_a_token_that_changed_hands_takes_no_decision_with_it(world: World) -> None:
    world.learn()
    world.decisions.identified(TOKEN, UserInfo("bert"), now=world.now)
    assert world.judge() == Undecided.NEEDS_DECISION


def test_a_decision_about_nobody_is_none(world: World) -> None:
    world.decisions.decided(TOKEN, LIST_PODS, allowed=True, reason="", now=world.now)
    assert world.judge() == Undecided.NEEDS_IDENTITY
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_a_refused_token_is_out_at_once_and_asked_about_again_later(world: World) -> None:
    world.learn()
    world.decisions.rejected(TOKEN, now=world.now)
    assert world.judge() == Undecided.TOKEN_REJECTED
    assert world.judge(is_online=False) == Undecided.TOKEN_REJECTED
    world.pass_time(REJECTED_TTL)
    assert world.judge() == Undecided.NEEDS_IDENTITY
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_a_token_that_is_accepted_again_is_no_longer_out(world: World) -> None:
    world.decisions.rejected(TOKEN, now=world.now)
    world.learn()
    assert is_allowed(world.judge())


# ── cut off ──


def test_a_token_never_seen_is_unverifiable_while_cut_off(world: World) -> None:
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_an_action_never_seen_is_unverifiable_while_cut_off(world: World) -> None:
    world.learn()
    unseen = replace(LIST_PODS, namespace="other")
    assert world.judge(is_online=False, attributes=unseen) == Undecided.UNVERIFIABLE


def test_while_cut_off_a_decision_stands_for_the_offline_ttl(world: World) -> None:
    world.learn()
    world.pass_time(OFFLINE_TTL - 1)
    assert world.judge(is_online=False) == Decision(True, until=world.now + 1)
    assert world.judge() == Undecided.NEEDS_IDENTITY
    world.pass_time(1)
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_while_cut_off_it_is_looked_at_again_after_each_ttl(world: World) -> None:
    """An open watch asks again then: the link may be back, and the answer another."""
    world.learn()
    assert world.judge(is_online=False) == Decision(True, until=world.now + TTL)


def test_what_was_said_long_before_the_cut_does_not_stand_in_it(world: World) -> None:
    world.learn()
    world.pass_time(OFFLINE_TTL)
    world.decisions.contact(now=world.now)
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_the_offline_ttl_counts_from_the_last_answer_of_upstream(world: World) -> None:
    world.learn()
    world.pass_time(OFFLINE_TTL / 2)
    world.decisions.contact(now=world.now)
    world.pass_time(OFFLINE_TTL - 1)
    assert is_allowed(world.judge(is_online=False))
    world.pass_time(1)
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_the_first_answer_of_upstream_makes_all_be_asked_again(world: World) -> None:
    world.learn()
    world.pass_time(1)
    world.decisions.contact(now=world.now)
    world.pass_time(1)
    world.decisions.connected(now=world.now)
    assert world.judge() == Undecided.NEEDS_IDENTITY
    assert is_allowed(world.judge(is_online=False))


# ── who may get in general may get each by name, while cut off ──


GET_POD = Attributes(verb="get", version="v1", resource="pods", namespace="ns", name="a")
GET_PODS = replace(GET_POD, name="")


@pytest.mark.parametrize("known", [GET_PODS, replace(GET_PODS, namespace="")])
def test_a_decision_without_a_name_covers_names_only_while_cut_off(
    world: World, known: Attributes
) -> None:
    world.learn(attributes=known)
    assert is_allowed(world.judge(attributes=GET_POD, is_online=False))
    assert world.judge(attributes=GET_POD) == Undecided.NEEDS_DECISION


@pytest.mark.parametrize(
    "wanted",
    [
        replace(GET_POD, verb="list"),
        replace(GET_POD, verb="watch"),
        replace(GET_POD, resource="secrets"),
        replace(GET_POD, group="metrics.k8s.io"),
        replace(GET_POD, subresource="log"),
        replace(GET_POD, namespace="other"),
    ],
)
def test_it_covers_nothing_else(world: World, wanted: Attributes) -> None:
    world.learn(attributes=GET_PODS)
    assert world.judge(attributes=wanted, is_online=False) == Undecided.UNVERIFIABLE


@pytest.mark.parametrize("known", [LIST_PODS, replace(GET_POD, name="b")])
def test_to_list_or_to_get_another_is_not_to_get(world: World, known: Attributes) -> None:
    world.learn(attributes=known)
    assert world.judge(attributes=GET_POD, is_online=False) == Undecided.UNVERIFIABLE


def test_a_denial_of_the_name_wins_whichever_came_first(world: World) -> None:
    world.learn(attributes=GET_POD, allowed=False)
    world.learn(attributes=GET_PODS)
    assert not is_allowed(world.judge(attributes=GET_POD, is_online=False))


def test_a_name_that_is_denied_refutes_that_all_are_allowed(world: World) -> None:
    world.learn(attributes=GET_PODS)
    world.learn(attributes=replace(GET_PODS, namespace=""))
    world.learn(attributes=GET_POD, allowed=False)
    other = replace(GET_POD, name="b")
    assert world.judge(attributes=other, is_online=False) == Undecided.UNVERIFIABLE


def test_a_denial_without_a_name_denies_no_name(world: World) -> None:
    """RBAC may allow some by name."""
    world.learn(attributes=GET_PODS, allowed=False)
    assert world.judge(attributes=GET_POD, is_online=False) == Undecided.UNVERIFIABLE
    world.learn(attributes=GET_POD)
    assert is_allowed(world.judge(attributes=GET_POD, is_online=False))


@pytest.mark.parametrize(
    ("read", "beside"),
    [
        (LIST_PODS, GET_PODS),
        (replace(LIST_PODS, verb="watch", label_selector="a=b"), GET_PODS),
        (replace(LIST_PODS, namespace=""), replace(GET_PODS, namespace="")),
        (replace(LIST_PODS, name="a", field_selector="metadata.name=a"), GET_POD),
        (GET_POD, GET_PODS),
        (GET_PODS, None),
        (replace(GET_POD, subresource="log"), None),
        (Attributes(verb="get", path="/version"), None),
    ],
)
def test_what_is_asked_beside_a_read_is_the_get_of_what_it_shows(
    world: World, read: Attributes, beside: Attributes | None
) -> None:
    world.learn(attributes=read)
    assert world.decisions.beside(TOKEN, read, now=world.now) == beside
    if beside is not None:
        world.learn(attributes=beside, allowed=False)
        assert world.decisions.beside(TOKEN, read, now=world.now) is None


def test_what_counts_only_while_cut_off_is_asked_once_an_hour(world: World) -> None:
    world.learn()
    world.learn(attributes=GET_PODS)
    world.pass_time(3599)
    world.learn()
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) is None
    world.pass_time(1)
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) == GET_PODS


def test_it_is_asked_at_the_ttl_where_the_read_beside_it_is_denied(world: World) -> None:
    """A Role that is deleted takes both."""
    world.learn(attributes=GET_PODS)
    world.pass_time(TTL - 1)
    world.learn(allowed=False)
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) is None
    world.pass_time(1)
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) == GET_PODS


def test_it_is_asked_after_each_cut(world: World) -> None:
    world.learn()
    world.learn(attributes=GET_PODS)
    world.pass_time(1)
    world.decisions.connected(now=world.now)
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) == GET_PODS


def test_where_little_counts_while_cut_off_it_is_asked_more_often() -> None:
    """Else it would be too old when the link goes."""
    world = World(offline_ttl=48 * TTL)
    world.learn()
    world.learn(attributes=GET_PODS)
    world.pass_time(2 * TTL)
    assert world.decisions.beside(TOKEN, LIST_PODS, now=world.now) == GET_PODS


# ── the next life ──


Kept = dict[str, bytes | None]


def survived(world: World, kept: Kept, *, downtime: float, boot: str = "a") -> World:
    """A new process, on the same run of the machine or on another one, that has begun just now."""
    present = {key: value for key, value in kept.items() if value is not None}
    now = world.now + downtime if boot == "a" else 5.0
    return World(boot=boot, now=now, kept=present)


def test_a_restart_while_cut_off_forgets_nothing_and_prolongs_nothing(world: World) -> None:
    world.learn()
    after = survived(world, world.kept(), downtime=3600)
    assert is_allowed(after.judge(is_online=False))
    assert after.judge() == Undecided.NEEDS_IDENTITY
    after.pass_time(OFFLINE_TTL - 3600)
    assert after.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_what_others_may_have_written_to_the_disk_shows_no_secret(world: World) -> None:
    secrets = replace(LIST_PODS, resource="secrets")
    world.learn()
    world.learn(attributes=secrets)
    after = survived(world, world.kept(), downtime=60)
    assert is_allowed(after.judge(is_online=False))
    assert after.judge(is_online=False, attributes=secrets) == Undecided.UNVERIFIABLE
    after.learn(attributes=secrets)
    assert is_allowed(after.judge(is_online=False, attributes=secrets))


def test_many_restarts_while_cut_off_add_up(world: World) -> None:
    world.learn()
    kept = world.kept()
    for _ in range(24):
        assert is_allowed(world.judge(is_online=False))
        world.pass_time(OFFLINE_TTL / 48)
        kept |= world.decisions.clock_record(now=world.now)
        world = survived(world, kept, downtime=OFFLINE_TTL / 48)
    assert world.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_time_without_power_is_not_counted_but_what_was_before_it_is(world: World) -> None:
    world.learn()
    kept = world.kept()
    world.pass_time(OFFLINE_TTL / 2)
    kept |= world.decisions.clock_record(now=world.now)
    after = survived(world, kept, downtime=1e9, boot="b")
    assert is_allowed(after.judge(is_online=False))
    after.pass_time(OFFLINE_TTL / 2 - 10)
    assert is_allowed(after.judge(is_online=False))
    after.pass_time(10)
    assert after.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_what_was_learnt_after_the_clock_was_kept_for_the_last_time_is_taken_for_new(
    world: World,
) -> None:
    early = world.decisions.clock_record(now=world.now)
    world.pass_time(30)
    world.learn()
    after = survived(world, {**world.kept(), **early}, downtime=0, boot="b")
    assert is_allowed(after.judge(is_online=False))
    after.pass_time(OFFLINE_TTL)
    assert after.judge(is_online=False) == Undecided.UNVERIFIABLE


@pytest.mark.parametrize("clock", [None, b"", b"[1]", b'["a",-1,-1,-1]'])
def test_without_the_clock_nothing_that_was_kept_stands(world: World, clock: bytes | None) -> None:
    world.learn()
    kept = world.kept() | {"clock": clock}
    after = survived(world, kept, downtime=0)
    assert after.judge(is_online=False) == Undecided.UNVERIFIABLE
    assert {key for key, value in after.kept().items() if value is None} == {*kept} - {"clock"}


def test_what_0_1_0_kept_with_wall_times_is_deleted() -> None:
    after = World(kept={"identity/a": b"[1,{}]", "decision/b": b"[1,{}]"})
    assert after.kept() == {
        "identity/a": None,
        "decision/b": None,
        **after.decisions.clock_record(now=after.now),
    }


def test_a_denial_survives_as_one(world: World) -> None:
    world.learn(allowed=False, reason="policy")
    verdict = survived(world, world.kept(), downtime=10).judge(is_online=False)
    assert isinstance(verdict, Decision)
    assert not verdict.allowed
    assert verdict.reason == "policy"


def test_with_another_salt_nothing_is_known(world: World) -> None:
    world.learn()
    kept = {key: value for key, value in world.kept().items() if value is not None}
    assert World(salt=b"other", kept=kept).judge(is_online=False) == Undecided.UNVERIFIABLE


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[1]", b'[1,{"allowed":1,"reason":""}]', b"\xff"])
def test_what_cannot_be_read_is_left_out(world: World, garbage: bytes) -> None:
    world.learn()
    kept = world.kept()
    clock = {"clock": kept.pop("clock") or b""}
    after = World(kept=dict.fromkeys(kept, garbage) | clock)
    assert after.judge(is_online=False) == Undecided.UNVERIFIABLE


def test_neither_tokens_nor_groups_nor_actions_can_be_read_from_what_is_kept(world: World) -> None:
    world.learn(user=replace(ANNA, groups=("secret-group",)))
    kept = world.kept()
    assert len(kept) == 3
    told = json.dumps({key: (value or b"").decode() for key, value in kept.items()})
    for secret in (TOKEN, "secret-group", "pods", SALT.decode()):
        assert secret not in told


def test_a_refused_tokens_record_is_deleted(world: World) -> None:
    world.learn()
    [user] = [key for key in world.kept() if key.startswith("user/")]
    world.decisions.rejected(TOKEN, now=world.now)
    assert world.kept().items() >= {user: None}.items()


def test_what_nobody_renews_is_deleted(world: World) -> None:
    world.learn()
    written = world.kept()
    world.pass_time(OFFLINE_TTL)
    world.decisions.contact(now=world.now)
    assert {key for key, value in world.kept().items() if value is None} == {*written} - {"clock"}


def test_what_is_confirmed_each_minute_is_written_now_and_then(world: World) -> None:
    """Flash wears out; the price is that after a restart it stands a little shorter."""
    writes = 0
    for _ in range(1440):
        world.learn()
        writes += len({*world.kept()} - {"clock"})
        world.pass_time(OFFLINE_TTL / 1440)
    assert writes <= 2 * (KEEPS_PER_LIFE + 1)


def test_after_the_disk_failed_all_is_written_anew(world: World) -> None:
    world.learn()
    world.learn(token="another", user=UserInfo("bert"), allowed=False)
    written = world.kept()
    snapshot = world.decisions.snapshot(now=world.now)
    assert snapshot == written
    assert world.kept() == {}


def test_a_change_is_written_at_once(world: World) -> None:
    world.learn()
    world.kept()
    world.learn(allowed=False)
    [value] = [value for key, value in world.kept().items() if key.startswith("right/")]
    assert b"false" in (value or b"")


def test_a_flood_of_tokens_is_bounded(world: World) -> None:
    for number in range(MAX_TOKENS + 10):
        world.decisions.identified(f"token-{number}", ANNA, now=world.now)
        world.decisions.rejected(f"bad-{number}", now=world.now)
    world.decisions.decided(f"token-{MAX_TOKENS}", LIST_PODS, allowed=True, reason="", now=0)
    assert world.judge(token="token-0") == Undecided.NEEDS_IDENTITY
    assert world.judge(token=f"token-{MAX_TOKENS + 9}") != Undecided.NEEDS_IDENTITY
    assert world.judge(token="bad-0") == Undecided.NEEDS_IDENTITY
    assert world.judge(token=f"bad-{MAX_TOKENS + 9}") == Undecided.TOKEN_REJECTED


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 40))))
def test_a_ledger_is_what_it_wrote(steps: list[tuple[str, bool, int]]) -> None:
    """But that what was only confirmed may be older by a part of a life."""
    life = 480.0
    ledger = ExpiringMap(bool, life=life, limit=3)
    written: dict[str, bytes] = {}
    now = 0.0
    for key, fact, passed in steps:
        now += passed
        ledger.learn(key, fact, now=now)
        for name, value in ledger.take_unkept(now=now).items():
            if value is None:
                written.pop(name, None)
            else:
                written[name] = value
    after = ExpiringMap(bool, life=life, limit=3)
    after.restore(written, now=now)
    assert len(after) == len(ledger) <= 3
    for key in "abcd":
        one, other = ledger.get(key), after.get(key)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.fact == other.fact
            assert 0 <= one.at - other.at < life / KEEPS_PER_LIFE + 1e-6


# ── tokens and actions ──


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer  x", None),
        ("Basic YTpi", None),
        ("Bearer x", "x"),
        ("bearer x", "x"),
        (" Bearer x ", "x"),
        ("Bearer x y", "x"),
        ("Bearer x\ty", None),
        ("Bearer ä", None),
    ],
)
def test_the_token_is_the_one_that_kube_apiserver_looks_at(
    header: str | None, token: str | None
) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            LIST_PODS,
            'pods is forbidden: User "anna" cannot list resource "pods" in API group "" '
            'in the namespace "ns"',
        ),
        (
            Attributes(verb="get", group="apps", resource="deployments", name="d"),
            'deployments.apps "d" is forbidden: User "anna" cannot get resource "deployments" '
            'in API group "apps" at the cluster scope',
        ),
        (
            Attributes(verb="get", resource="pods", subresource="log", name="p", namespace="ns"),
            'pods "p" is forbidden: User "anna" cannot get resource "pods/log" in API group "" '
            'in the namespace "ns"',
        ),
        (
            Attributes(verb="get", path="/metrics"),
            'forbidden: User "anna" cannot get path "/metrics"',
        ),
        (
            Attributes(verb="get", path="/<a>&b"),
            'forbidden: User "anna" cannot get path "/&lt;a&gt;&amp;b"',
        ),
    ],
)
def test_a_denial_reads_as_kube_apiservers(attributes: Attributes, message: str) -> None:
    assert attributes.refusal("anna", "").message == message
    assert attributes.refusal("anna", "because").message == f"{message}: because"
    assert attributes.refusal("anna", "").code == 403


def test_selectors_are_told_to_upstream_where_authorizers_see_them() -> None:
    selected = replace(LIST_PODS, field_selector="spec.nodeName=n1", label_selector="a=b")
    spec = json.loads(json.dumps(selected.review()))["spec"]["resourceAttributes"]
    assert spec["fieldSelector"] == {"rawSelector": "spec.nodeName=n1"}
    assert spec["labelSelector"] == {"rawSelector": "a=b"}
    got = json.dumps(replace(selected, verb="get").review())
    assert "Selector" not in got


def test_what_is_no_resource_is_asked_by_its_path() -> None:
    review = Attributes(verb="get", path="/version").review()
    assert review["spec"] == {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
