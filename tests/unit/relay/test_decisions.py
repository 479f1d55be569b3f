"""For how long what upstream said about a caller stands: online, cut off, and after a restart."""

import base64
import json
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_sidecar.core.attributes import Attributes
from relay_sidecar.core.decisions import (
    MAX_TOKENS,
    REJECTED_TTL,
    Ask,
    Decisions,
    Rejected,
    Standing,
    Unverifiable,
    User,
    Verdict,
)
from relay_sidecar.core.ledger import KEEPS_PER_LIFE, Ledger
from relay_sidecar.core.tokens import bearer_token, expiry

TTL, OFFLINE_TTL = 60.0, 86400.0
WALL = 1_700_000_000.0
SALT = b"salt"
TOKEN = "opaque-token"
ANNA = User("anna", uid="1", groups=("dev", "ops"), extra=(("scope", ("a",)),))
LIST_PODS = Attributes(verb="list", version="v1", resource="pods", namespace="ns")


def jwt(**claims: object) -> str:
    def segment(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()

    return f"{segment({'alg': 'none'})}.{segment(claims)}.signature"


class World:
    """Decisions and both clocks, which go together unless a test turns one."""

    def __init__(self, *, salt: bytes = SALT, now: float = 1000.0, wall: float = WALL) -> None:
        self.decisions = Decisions(salt=salt, ttl=TTL, offline_ttl=OFFLINE_TTL)
        self.now = now
        self.wall = wall

    def judge(
        self, *, is_online: bool = True, token: str = TOKEN, attributes: Attributes = LIST_PODS
    ) -> Verdict:
        return self.decisions.judge(
            token, attributes, now=self.now, wall=self.wall, is_online=is_online
        )

    def learn(
        self,
        *,
        allowed: bool = True,
        token: str = TOKEN,
        user: User = ANNA,
        attributes: Attributes = LIST_PODS,
        reason: str = "",
    ) -> None:
        self.decisions.identified(token, user, now=self.now)
        self.decisions.decided(token, attributes, allowed=allowed, reason=reason, now=self.now)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds

    def kept(self) -> dict[str, bytes | None]:
        return self.decisions.take_unkept(now=self.now, wall=self.wall)


@pytest.fixture
def world() -> World:
    return World()


def is_allowed(verdict: Verdict) -> bool:
    return isinstance(verdict, Standing) and verdict.allowed


# ── online ──


def test_of_an_unknown_caller_both_is_asked(world: World) -> None:
    assert world.judge() == Ask(who=True)


def test_what_upstream_said_stands_for_the_ttl_and_no_longer(world: World) -> None:
    world.learn()
    asked_at = world.now
    world.pass_time(TTL - 1)
    assert world.judge() == Standing(True, "anna", "", until=asked_at + TTL)
    world.pass_time(1)
    assert world.judge() == Ask(who=True)


def test_a_denial_stands_as_long_and_tells_its_reason(world: World) -> None:
    world.learn(allowed=False, reason="policy")
    assert world.judge() == Standing(False, "anna", "policy", until=world.now + TTL)


def test_a_denial_ends_an_earlier_permission_at_once(world: World) -> None:
    world.learn()
    world.learn(allowed=False)
    assert not is_allowed(world.judge())
    assert not is_allowed(world.judge(is_online=False))


def test_the_older_of_both_facts_counts(world: World) -> None:
    world.learn()
    world.pass_time(TTL / 2)
    world.decisions.decided(TOKEN, LIST_PODS, allowed=True, reason="", now=world.now)
    assert world.judge() == Standing(True, "anna", "", until=world.now + TTL / 2)


def test_of_a_known_caller_only_the_new_action_is_asked(world: World) -> None:
    world.learn()
    assert world.judge(attributes=replace(LIST_PODS, verb="watch")) == Ask(who=False)


@pytest.mark.parametrize("name", [field.name for field in fields(Attributes)])
def test_a_decision_is_about_exactly_one_action(world: World, name: str) -> None:
    world.learn()
    assert world.judge(attributes=replace(LIST_PODS, **{name: "other"})) == Ask(who=False)


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
def test_a_decision_is_about_exactly_one_user(world: World, other: User) -> None:
    world.learn()
    world.decisions.identified("another", other, now=world.now)
    assert world.judge(token="another") == Ask(who=False)


def test_two_tokens_of_one_user_share_decisions(world: World) -> None:
    world.learn()
    world.decisions.identified("rotated", ANNA, now=world.now)
    assert is_allowed(world.judge(token="rotated"))


def test_a_token_that_changed_hands_takes_no_decision_with_it(world: World) -> None:
    world.learn()
    world.decisions.identified(TOKEN, User("bert"), now=world.now)
    assert world.judge() == Ask(who=False)


def test_a_decision_about_nobody_is_none(world: World) -> None:
    world.decisions.decided(TOKEN, LIST_PODS, allowed=True, reason="", now=world.now)
    assert world.judge() == Ask(who=True)
    assert world.judge(is_online=False) == Unverifiable()


def test_a_refused_token_is_out_at_once_and_asked_about_again_later(world: World) -> None:
    world.learn()
    world.decisions.rejected(TOKEN, now=world.now)
    assert world.judge() == Rejected()
    assert world.judge(is_online=False) == Rejected()
    world.pass_time(REJECTED_TTL)
    assert world.judge() == Ask(who=True)
    assert world.judge(is_online=False) == Unverifiable()


def test_a_token_that_is_accepted_again_is_no_longer_out(world: World) -> None:
    world.decisions.rejected(TOKEN, now=world.now)
    world.learn()
    assert is_allowed(world.judge())


# ── cut off ──


def test_a_token_never_seen_is_unverifiable_while_cut_off(world: World) -> None:
    assert world.judge(is_online=False) == Unverifiable()


def test_an_action_never_seen_is_unverifiable_while_cut_off(world: World) -> None:
    world.learn()
    unseen = replace(LIST_PODS, namespace="other")
    assert world.judge(is_online=False, attributes=unseen) == Unverifiable()


def test_while_cut_off_a_decision_stands_for_the_offline_ttl(world: World) -> None:
    world.learn()
    world.pass_time(OFFLINE_TTL - 1)
    assert world.judge(is_online=False) == Standing(True, "anna", "", until=world.now + 1)
    assert world.judge() == Ask(who=True)
    world.pass_time(1)
    assert world.judge(is_online=False) == Unverifiable()


def test_while_cut_off_it_is_looked_at_again_after_each_ttl(world: World) -> None:
    """An open watch asks again then: the link may be back, and the answer another."""
    world.learn()
    assert world.judge(is_online=False) == Standing(True, "anna", "", until=world.now + TTL)


def test_while_cut_off_a_token_is_good_until_its_own_end(world: World) -> None:
    token = jwt(exp=WALL + 600)
    world.learn(token=token)
    world.pass_time(590)
    verdict = world.judge(token=token, is_online=False)
    assert verdict == Standing(True, "anna", "", until=world.now + 10)
    world.pass_time(10)
    assert world.judge(token=token, is_online=False) == Rejected()


def test_online_only_upstream_says_that_a_token_is_over(world: World) -> None:
    """This machine's clock may be wrong."""
    token = jwt(exp=WALL - 600)
    world.learn(token=token)
    assert is_allowed(world.judge(token=token))


# ── the next life ──


def survived(world: World, kept: dict[str, bytes | None], *, downtime: float) -> World:
    """A new process; the clock since boot began anew."""
    after = World(now=5.0, wall=world.wall + downtime)
    present = {key: value for key, value in kept.items() if value is not None}
    after.decisions.restore(present, now=after.now, wall=after.wall)
    return after


def test_a_restart_while_cut_off_forgets_nothing_and_prolongs_nothing(world: World) -> None:
    world.learn()
    after = survived(world, world.kept(), downtime=3600)
    assert is_allowed(after.judge(is_online=False))
    assert after.judge() == Ask(who=True)
    after.pass_time(OFFLINE_TTL - 3600)
    assert after.judge(is_online=False) == Unverifiable()


def test_a_denial_survives_as_one(world: World) -> None:
    world.learn(allowed=False, reason="policy")
    verdict = survived(world, world.kept(), downtime=10).judge(is_online=False)
    assert isinstance(verdict, Standing)
    assert not verdict.allowed
    assert verdict.reason == "policy"


def test_a_tokens_own_end_survives(world: World) -> None:
    token = jwt(exp=WALL + 600)
    world.learn(token=token)
    after = survived(world, world.kept(), downtime=600)
    assert after.judge(token=token, is_online=False) == Rejected()


def test_where_the_clock_was_set_back_it_stands_no_longer_than_from_the_restart_on(
    world: World,
) -> None:
    world.learn()
    after = survived(world, world.kept(), downtime=-1e9)
    assert is_allowed(after.judge(is_online=False))
    after.pass_time(OFFLINE_TTL)
    assert after.judge(is_online=False) == Unverifiable()


def test_with_another_salt_nothing_is_known(world: World) -> None:
    world.learn()
    other = World(salt=b"other")
    kept = {key: value for key, value in world.kept().items() if value is not None}
    other.decisions.restore(kept, now=other.now, wall=other.wall)
    assert other.judge(is_online=False) == Unverifiable()


@pytest.mark.parametrize("garbage", [b"", b"{}", b"[1]", b'[1,{"allowed":1,"reason":""}]', b"\xff"])
def test_what_cannot_be_read_is_left_out(world: World, garbage: bytes) -> None:
    world.learn()
    kept = world.kept()
    after = World()
    after.decisions.restore(dict.fromkeys(kept, garbage), now=after.now, wall=after.wall)
    assert after.judge(is_online=False) == Unverifiable()


def test_neither_tokens_nor_groups_nor_actions_can_be_read_from_what_is_kept(world: World) -> None:
    world.learn(user=replace(ANNA, groups=("secret-group",)))
    kept = world.kept()
    assert len(kept) == 2
    told = json.dumps({key: (value or b"").decode() for key, value in kept.items()})
    for secret in (TOKEN, "secret-group", "pods", SALT.decode()):
        assert secret not in told


def test_a_refused_tokens_record_is_deleted(world: World) -> None:
    world.learn()
    [identity] = [key for key in world.kept() if key.startswith("identity/")]
    world.decisions.rejected(TOKEN, now=world.now)
    assert world.kept() == {identity: None}


def test_what_nobody_renews_is_deleted(world: World) -> None:
    world.learn()
    written = world.kept()
    world.pass_time(OFFLINE_TTL)
    assert world.kept() == dict.fromkeys(written)


def test_what_is_confirmed_each_minute_is_written_now_and_then(world: World) -> None:
    """Flash wears out; the price is that after a restart it stands a little shorter."""
    writes = 0
    for _ in range(1440):
        world.learn()
        writes += len(world.kept())
        world.pass_time(OFFLINE_TTL / 1440)
    assert writes <= 2 * (KEEPS_PER_LIFE + 1)


def test_after_the_disk_failed_all_is_written_anew(world: World) -> None:
    world.learn()
    world.learn(token="another", user=User("bert"), allowed=False)
    written = world.kept()
    snapshot = world.decisions.snapshot(now=world.now, wall=world.wall)
    assert snapshot == written
    assert world.kept() == {}


def test_a_change_is_written_at_once(world: World) -> None:
    world.learn()
    world.kept()
    world.learn(allowed=False)
    [(key, value)] = world.kept().items()
    assert key.startswith("decision/")
    assert b"false" in (value or b"")


def test_a_flood_of_tokens_is_bounded(world: World) -> None:
    for number in range(MAX_TOKENS + 10):
        world.decisions.identified(f"token-{number}", ANNA, now=world.now)
        world.decisions.rejected(f"bad-{number}", now=world.now)
    world.decisions.decided(f"token-{MAX_TOKENS}", LIST_PODS, allowed=True, reason="", now=0)
    assert world.judge(token="token-0") == Ask(who=True)
    assert world.judge(token=f"token-{MAX_TOKENS + 9}") != Ask(who=True)
    assert world.judge(token="bad-0") == Ask(who=True)
    assert world.judge(token=f"bad-{MAX_TOKENS + 9}") == Rejected()


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 40))))
def test_a_ledger_is_what_it_wrote(steps: list[tuple[str, bool, int]]) -> None:
    """But that what was only confirmed may be older by a part of a life."""
    life = 480.0
    ledger = Ledger(bool, life=life, limit=3)
    written: dict[str, bytes] = {}
    now = 0.0
    for key, fact, passed in steps:
        now += passed
        ledger.learn(key, fact, now=now)
        for name, value in ledger.take_unkept(now=now, wall=WALL + now).items():
            if value is None:
                written.pop(name, None)
            else:
                written[name] = value
    after = Ledger(bool, life=life, limit=3)
    after.restore(written, now=now, wall=WALL + now)
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
    ("token", "end"),
    [
        (jwt(exp=1700000000), 1700000000.0),
        (jwt(exp=1.5), 1.5),
        (jwt(), None),
        (jwt(exp="soon"), None),
        (jwt(exp=True), None),
        (jwt(exp=float("nan")), None),
        (jwt(exp=10**400), None),
        ("a.b.c", None),
        ("a.é.c", None),
        ("opaque", None),
        ("", None),
    ],
)
def test_a_tokens_end_is_its_exp(token: str, end: float | None) -> None:
    assert expiry(token) == end


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
