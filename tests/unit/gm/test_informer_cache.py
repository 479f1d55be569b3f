"""A collection goes forward only, whoever tells it: a list, a watch, or an answer to a write."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from edge_sidecars.sedna_api.core.api_object import Document
from gm.cache.informer_cache import InformerCache
from tests.unit.gm.documents import document


@dataclass
class Told:
    changes: list[tuple[Document | None, Document | None]] = field(default_factory=list)
    moves: int = 0

    def change(self, before: Document | None, after: Document | None) -> None:
        self.changes.append((before, after))

    def move(self) -> None:
        self.moves += 1


def made() -> tuple[InformerCache, Told]:
    told = Told()
    return InformerCache("dataset", told.change, told.move), told


def test_a_list_takes_the_place_of_everything() -> None:
    it, told = made()
    one, two = document("dataset", "one", version=1), document("dataset", "two", version=2)
    it.sources[""].replaced([one, two], 5)
    three = document("dataset", "three", version=6)
    it.sources[""].replaced([two, three], 7)
    assert list(it) == [two, three]
    assert told.changes == [(None, one), (None, two), (one, None), (None, three)]
    assert it.is_synced
    assert it.version == 7


def test_an_older_state_changes_nothing() -> None:
    it, told = made()
    new, old = document("dataset", "d", version=9), document("dataset", "d", version=8)
    it.sources[""].changed(new)
    it.sources[""].changed(old)
    assert list(it) == [new]
    assert told.changes == [(None, new)]


def test_the_same_name_with_another_uid_is_another_object() -> None:
    it, told = made()
    first = document("dataset", "d", version=1, uid="a")
    second = document("dataset", "d", version=5, uid="b")
    it.sources[""].changed(first)
    it.sources[""].changed(second)
    assert told.changes == [(None, first), (first, None), (None, second)]


def test_a_deletion_tells_the_last_state_at_its_version() -> None:
    it, told = made()
    first, last = document("dataset", "d", version=1), document("dataset", "d", version=4)
    it.sources[""].changed(first)
    it.sources[""].deleted(last)
    assert told.changes[-1] == (last, None)
    assert it.version == 4
    assert len(it) == 0


def test_an_answer_to_a_write_is_known_at_once_and_told_once() -> None:
    it, told = made()
    it.sources[""].replaced([], 3)
    written = document("dataset", "d", version=5)
    it.learned(written)
    it.sources[""].changed(written)
    assert told.changes == [(None, written)]
    assert it.version == 5


def test_an_answer_that_comes_after_the_deletion_brings_nothing_back() -> None:
    it, _ = made()
    it.sources[""].replaced([], 3)
    it.sources[""].changed(document("dataset", "d", version=5))
    it.sources[""].deleted(document("dataset", "d", version=6))
    it.learned(document("dataset", "d", version=5))
    assert len(it) == 0


def test_a_list_that_is_older_than_our_own_write_does_not_undo_it() -> None:
    it, _ = made()
    it.sources[""].replaced([], 3)
    written = document("dataset", "d", version=9)
    it.learned(written)
    it.sources[""].replaced([], 7)
    assert list(it) == [written]
    it.sources[""].replaced([], 10)
    assert list(it) == []


def test_a_deletion_of_an_older_object_leaves_the_newer_one_of_that_name() -> None:
    it, _ = made()
    newer = document("dataset", "d", version=9, uid="b")
    it.learned(newer)
    it.sources[""].deleted(document("dataset", "d", version=5, uid="a"))
    assert list(it) == [newer]


def test_another_history_takes_the_place_of_everything() -> None:
    it, told = made()
    before = document("dataset", "d", version=900, uid="a")
    it.sources[""].replaced([before], 1000)
    after = document("dataset", "d", version=4, uid="b")
    it.sources[""].replaced([after], 10)
    assert list(it) == [after]
    assert it.version == 10
    assert told.changes[-2:] == [(before, None), (None, after)]


def test_what_the_api_says_is_gone_is_gone_unless_it_is_another_by_now() -> None:
    it, _ = made()
    first, second = (document("dataset", "d", version=v, uid=u) for v, u in ((1, "a"), (5, "b")))
    it.sources[""].changed(first)
    it.forgot(first)
    assert len(it) == 0
    it.sources[""].changed(second)
    it.forgot(first)
    assert list(it) == [second]


def test_each_namespace_has_come_as_far_as_its_own_source() -> None:
    told = Told()
    it = InformerCache("dataset", told.change, told.move, namespaces=("shop", "lab"))
    shop, lab = it.sources["shop"], it.sources["lab"]
    here, there = (
        document("dataset", "d", version=3, uid=space, namespace=space) for space in it.sources
    )
    synced = []
    for source, one, version in ((shop, here, 9), (lab, there, 4)):
        source.replaced([one], version)
        synced.append(it.is_synced)
    assert synced == [False, True]
    assert (it.version, it.version_in("shop"), it.version_in("lab")) == (9, 9, 4)
    # A list of one namespace says nothing of the others.
    shop.replaced([], 11)
    assert list(it) == [there]
    # What the watch of its namespace has not told yet is learned from answers.
    it.learned(document("dataset", "new", version=8, uid="n", namespace="lab"))
    it.learned(document("dataset", "old", version=8, uid="o", namespace="shop"))
    assert sorted(each.name for each in it) == ["d", "new"]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8), st.booleans()), max_size=30))
def test_answers_in_any_order_beside_the_watch_end_where_the_watch_ends(
    answers: list[tuple[str, int, bool]],
) -> None:
    """A history of eight versions; answers to writes of it come early, late, twice or never."""
    history = [
        ("a", 1, True), ("b", 2, True), ("a", 3, True), ("a", 4, False),
        ("b", 5, True), ("a", 6, True), ("b", 7, False), ("a", 8, True),
    ]  # fmt: skip
    uids = {("a", 1): "a1", ("a", 3): "a1", ("a", 4): "a1", ("a", 6): "a2", ("a", 8): "a2"}
    it, told = made()
    it.sources[""].replaced([], 0)
    pending = iter(answers)
    for name, version, exists in history:
        for written, at, _ in pending:
            if (written, at, True) in history:
                uid = uids.get((written, at), "b1")
                it.learned(document("dataset", written, version=at, uid=uid))
            break
        state = document("dataset", name, version=version, uid=uids.get((name, version), "b1"))
        if exists:
            it.sources[""].changed(state)
        else:
            it.sources[""].deleted(state)
    assert {(each.name, each.resource_version) for each in it} == {("a", 8)}
    alive: dict[str, Document] = {}
    for before, after in told.changes:
        if before is not None:
            assert before.name in alive
            del alive[before.name]
        if after is not None:
            alive[after.name] = after
    assert list(alive.values()) == list(it)
