"""Rows that say who may read what, authenticated with the journal's data key.

Of these spaces a forged row would open what is sealed: a decision and an identity that were never
made let an invented token read a Secret while the relay cannot ask. So each of their rows carries a
tag, and one row more the sum of all tags.

| the row | its tag | what becomes of it |
|---|---|---|
| as it was written | right | believed |
| forged, changed, under another key or of another journal | wrong or none | deleted |
| of a journal of before, without tags | none | deleted: upstream is asked again |
| an older state of it, or one that is missing | right, but the sum is not | all are deleted |

A tag covers space, key and value of its row. An older state of all these rows together, their sum
included, passes: nothing outside of the journal tells its age.

Without the right key authorship is unknown. Rows are believed for everything but Secrets (see
`core/access/authorization.py`), and what the disk has stays as it is until upstream has decided
something: then the former key may be put back, and nothing is lost.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from relay_sidecar.journal.records import Blob, Record, Saved
from relay_sidecar.journal.sealing.sealer import TAG_SIZE, Sealer

# The journal's spaces, as their owners name them: access/authorization_store.py, access/node.py,
# upstream/link_probe.py.
SPACES: Final = frozenset({"access", "token-families", "node-certificates", "link"})
# The space and name of the sum.
SPACE: Final = "sealing"
SUM: Final = b"sum-of-tags"
# Before a tag and the value itself. Nothing else in these spaces begins so.
_MAGIC: Final = b"\xffmac\x01"
_HEAD: Final = len(_MAGIC) + TAG_SIZE
_MODULUS: Final = 1 << (8 * TAG_SIZE)
_SUM_NAME: Final = "the sum of all tags"
# What a relay writes by itself: the clock, that the link is down, and earlier outages.
_WRITTEN_BY_ITSELF: Final = frozenset(
    {("access", b"clock"), ("link", b"down"), ("link", b"outages")}
)

Row = tuple[str, bytes]


class AuthenticRows:
    """Of one journal. `rejected`: rows that were not believed."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer
        self.rejected = 0
        # Whether rows get tags: under the data key that the journal has, or is about to get.
        self.is_active = sealer.can_tag and sealer.failure is None
        self._tags: dict[Row, int] = {}
        self._total = 0
        # While there are no tags: all rows as they are known, for the day when there are.
        self._untagged: dict[Row, bytes] = {}
        # Those that are gone, while the disk has them still.
        self._gone: set[Row] = set()
        self._may_write = False

    @property
    def are_believed(self) -> bool:
        """Whether what `verified` gave was written by a relay with this key."""
        return self.is_active

    def verified(self, saved: Saved) -> tuple[Saved, list[Record]]:
        """With those rows that are believed, and what the disk is to lose."""
        if not self.is_active:
            stripped = without_tags(saved)
            self._untagged = {
                (space, key): value
                for space in SPACES
                for key, value in stripped.kept.get(space, {}).items()
            }
            return stripped, []
        good: dict[Row, bytes] = {}
        outdated: list[Record] = []
        for space, key, value in _rows(saved):
            tag, plain = _split(value)
            if tag is not None and tag == self._sealer.tag(space, key, plain):
                good[(space, key)] = plain
                self._put((space, key), tag)
            else:
                outdated.append(Blob(space, key, None))
        known = saved.kept.get(SPACE, {}).get(SUM)
        if known != self._sum() and (good or known is not None):
            outdated += [Blob(space, key, None) for space, key in good]
            good.clear()
            self._forget_all()
        self.rejected = len(outdated)
        if outdated:
            outdated.append(Blob(SPACE, SUM, self._sum()))
        return _with_rows(saved, good), outdated

    def stored(self, blob: Blob) -> Sequence[Record]:
        """What is written instead; in one transaction."""
        row = (blob.space, blob.key)
        if not self.is_active:
            return self._untagged_form(row, blob)
        return self._tagged(blob), Blob(SPACE, SUM, self._sum())

    def activate(self) -> list[Record]:
        """The journal gets a data key now: all rows get tags."""
        self.is_active = True
        untagged = self._all_untagged()
        self._untagged = {}
        rows = [self._tagged(blob) for blob in untagged]
        return [*rows, Blob(SPACE, SUM, self._sum())]

    def begin_anew(self) -> None:
        """All rows are about to be given to `stored` again, and there are no others."""
        self._forget_all()
        self._untagged.clear()
        self._gone.clear()
        self._may_write = True

    def records(self) -> list[Record]:
        """The sum, where all rows were given to `stored`."""
        return [Blob(SPACE, SUM, self._sum())] if self.is_active else []

    def _untagged_form(self, row: Row, blob: Blob) -> Sequence[Record]:
        if blob.value is None:
            self._untagged.pop(row, None)
            self._gone.add(row)
        else:
            self._untagged[row] = blob.value
            self._gone.discard(row)
        if not self._may_write:
            # From upstream's first decision on, the disk is to have what is known.
            self._may_write = row not in _WRITTEN_BY_ITSELF
            return self._all_untagged() if self._may_write else ()
        return (blob,)

    def _all_untagged(self) -> list[Blob]:
        gone, self._gone = self._gone, set()
        return [
            *(Blob(*row, None) for row in gone),
            *(Blob(*row, value) for row, value in self._untagged.items()),
        ]

    def _tagged(self, blob: Blob) -> Blob:
        row = (blob.space, blob.key)
        if blob.value is None:
            self._put(row, None)
            return blob
        tag = self._sealer.tag(blob.space, blob.key, blob.value)
        self._put(row, tag)
        return replace(blob, value=_MAGIC + tag + blob.value)

    def _put(self, row: Row, tag: bytes | None) -> None:
        self._total -= self._tags.pop(row, 0)
        if tag is not None:
            self._tags[row] = number = int.from_bytes(tag, "big")
            self._total += number

    def _forget_all(self) -> None:
        self._tags.clear()
        self._total = 0

    def _sum(self) -> bytes:
        value = (self._total % _MODULUS).to_bytes(TAG_SIZE, "big")
        return value + self._sealer.tag(_SUM_NAME, b"", value)


def without_tags(saved: Saved) -> Saved:
    """Where there is no key: all rows, since a forged one looks the same."""
    return _with_rows(saved, {(space, key): _split(value)[1] for space, key, value in _rows(saved)})


def _rows(saved: Saved) -> Iterator[tuple[str, bytes, bytes]]:
    for space in SPACES:
        for key, value in saved.kept.get(space, {}).items():
            yield space, key, value


def _with_rows(saved: Saved, rows: Mapping[Row, bytes]) -> Saved:
    kept = {space: dict(found) for space, found in saved.kept.items() if space not in SPACES}
    for (space, key), value in rows.items():
        kept.setdefault(space, {})[key] = value
    return replace(saved, kept=kept)


def _split(value: bytes) -> tuple[bytes | None, bytes]:
    """The tag and the value; None for a row without."""
    if not value.startswith(_MAGIC) or len(value) < _HEAD:
        return None, value
    return value[len(_MAGIC) : _HEAD], value[_HEAD:]
