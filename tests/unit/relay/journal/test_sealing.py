"""What is sealed is opened only as the row that it was sealed as, and only with the key."""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import shake_256
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sidecars.apimachinery.objects import Item
from edge_sidecars.apimachinery.resources import ResourceName
from edge_sidecars.apimachinery.scope import ListScope
from edge_sidecars.apimachinery.selection.fields import FieldSelector
from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.journal.journal import Journal
from relay_sidecar.journal.records import Blob, EventsApplied, ListReplaced, Saved
from relay_sidecar.journal.sealing.key_file import associated_data
from relay_sidecar.journal.sealing.sealed_secrets import SealedSecrets
from relay_sidecar.journal.sealing.sealer import OVERHEAD, Sealer
from tests.examples import examples
from tests.unit.relay.journal.journal_history import play

KEY, OTHER_KEY = shake_256(b"key").digest(32), shake_256(b"other key").digest(32)
RAW = b'{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}'


class Row(TypedDict):
    resource: str
    namespace: str
    name: str
    uid: str
    version: int


ROW = Row(resource="/v1/secrets", namespace="shop", name="db", uid="4e5f-1", version=81)
OTHERS = {
    "resource": Row(**(ROW | {"resource": "/v1/serviceaccounts/token"})),
    "namespace": Row(**(ROW | {"namespace": "shop2"})),
    "name": Row(**(ROW | {"name": "db-admin"})),
    "uid": Row(**(ROW | {"uid": "4e5f-2"})),
    "version": Row(**(ROW | {"version": 82})),
    "a shifted boundary": Row(**(ROW | {"namespace": "sho", "name": "pdb"})),
    "two parts exchanged": Row(**(ROW | {"namespace": "db", "name": "shop"})),
}
_TEXT = st.text(max_size=20)
ROWS: st.SearchStrategy[Row] = st.builds(
    Row,
    resource=_TEXT,
    namespace=_TEXT,
    name=_TEXT,
    uid=_TEXT,
    version=st.integers(0, 2**63 - 1),
)


def key_file(folder: Path, key: bytes = KEY) -> Path:
    path = folder / "key"
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(key)
    return path


def opened(folder: Path, key: bytes = KEY, *, wrapped: bytes | None = None) -> Sealer:
    return at(key_file(folder, key), wrapped)


def at(path: Path, wrapped: bytes | None) -> Sealer:
    return Sealer.open(path, data_dir=path.parent / "data", credentials_dir=None, wrapped=wrapped)


def sealed(sealer: Sealer, raw: bytes = RAW, row: Row = ROW) -> bytes:
    found = sealer.seal(raw, **row)
    assert found is not None
    return found


def kept(sealer: Sealer) -> bytes:
    assert sealer.wrapped is not None
    return sealer.wrapped


@pytest.fixture(scope="module")
def sealer(tmp_path_factory: pytest.TempPathFactory) -> Sealer:
    return opened(tmp_path_factory.mktemp("key"))


# ── rows ──


@settings(max_examples=examples(200), deadline=None)
@given(raw=st.binary(max_size=5000), row=ROWS)
def test_whatever_was_sealed_is_what_is_unsealed(sealer: Sealer, raw: bytes, row: Row) -> None:
    found = sealed(sealer, raw, row)
    assert len(found) == len(raw) + OVERHEAD
    assert sealer.unseal(found, **row) == raw


def test_a_secret_of_the_largest_size_is_sealed_and_unsealed(sealer: Sealer) -> None:
    raw = shake_256(b"large").digest(1024 * 1024)
    assert sealer.unseal(sealed(sealer, raw), **ROW) == raw


@pytest.mark.parametrize("other", OTHERS)
def test_a_row_is_not_opened_in_the_place_of_another(sealer: Sealer, other: str) -> None:
    here, there = sealed(sealer), sealed(sealer, row=OTHERS[other])
    assert sealer.unseal(here, **OTHERS[other]) is None
    assert sealer.unseal(there, **ROW) is None
    assert sealer.unseal(here, **ROW) == sealer.unseal(there, **OTHERS[other]) == RAW


@settings(max_examples=examples(300), deadline=None)
@given(row=ROWS, other=ROWS)
def test_two_rows_have_the_same_associated_data_only_if_they_are_the_same(
    row: Row, other: Row
) -> None:
    assert (associated_data(**row) == associated_data(**other)) == (row == other)


def test_a_row_of_which_any_bit_has_changed_is_unknown(sealer: Sealer) -> None:
    found = sealed(sealer)
    for position in range(8 * len(found)):
        changed = bytearray(found)
        changed[position // 8] ^= 1 << position % 8
        assert sealer.unseal(bytes(changed), **ROW) is None, position


def test_a_row_that_is_cut_short_or_longer_is_unknown(sealer: Sealer) -> None:
    found = sealed(sealer)
    for length in range(len(found)):
        assert sealer.unseal(found[:length], **ROW) is None, length
        assert sealer.unseal(found[length + 1 :], **ROW) is None, length
    assert sealer.unseal(found + b"\0", **ROW) is None


@settings(max_examples=examples(200), deadline=None)
@given(garbage=st.binary(max_size=200).map(lambda it: b"\x01" + it) | st.binary(max_size=200))
def test_garbage_is_unknown(sealer: Sealer, garbage: bytes) -> None:
    assert sealer.unseal(garbage, **ROW) is None


def test_what_is_sealed_is_not_unsealed_where_it_was_never_encrypted(sealer: Sealer) -> None:
    assert sealer.unseal(RAW, **ROW) is None


def test_no_two_sealings_have_a_nonce_in_common(sealer: Sealer) -> None:
    nonces = {sealed(sealer)[1:25] for _ in range(1000)}
    assert len(nonces) == 1000


def test_threads_that_share_a_sealer_do_not_disturb_each_other(sealer: Sealer) -> None:
    def wrong(number: int) -> int:
        raws = [b"%d %d" % (number, again) * 100 for again in range(300)]
        return sum(sealer.unseal(sealed(sealer, raw), **ROW) != raw for raw in raws)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(wrong, range(4))) == [0, 0, 0, 0]


# ── the data key ──


def test_the_data_key_that_the_journal_keeps_unseals_after_a_restart(tmp_path: Path) -> None:
    before = opened(tmp_path)
    found = sealed(before)
    after = opened(tmp_path, wrapped=before.wrapped)
    assert before.is_new
    assert (after.is_new, after.failure, after.wrapped) == (False, None, before.wrapped)
    assert after.unseal(found, **ROW) == RAW


def test_the_same_key_in_another_form_unseals(tmp_path: Path) -> None:
    before = opened(tmp_path)
    after = opened(tmp_path, b64encode(KEY) + b"\n", wrapped=before.wrapped)
    assert after.unseal(sealed(before), **ROW) == RAW


def test_each_journal_has_a_data_key_of_its_own(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    assert one.wrapped != other.wrapped
    assert other.unseal(sealed(one), **ROW) is None


def test_neither_the_key_nor_the_data_key_itself_seals_rows(tmp_path: Path) -> None:
    """A row cannot pass for the journal's data key, nor that for a row."""
    sealer = opened(tmp_path)
    assert sealer.unseal(kept(sealer), **ROW) is None
    after = opened(tmp_path, wrapped=sealed(sealer, bytes(range(32))))
    assert after.failure is not None


@pytest.mark.parametrize("position", [0, 1, 24, 25, 56, 57, 72])
def test_a_damaged_data_key_is_told_and_replaced(position: int, tmp_path: Path) -> None:
    before = opened(tmp_path)
    damaged = bytearray(kept(before))
    assert len(damaged) == 73
    damaged[position] ^= 0x80
    after = opened(tmp_path, wrapped=bytes(damaged))
    assert after.is_new
    assert after.failure is not None
    assert after.unseal(sealed(before), **ROW) is None


# ── another key, no key ──


def test_with_another_key_what_was_sealed_is_unknown_and_new_rows_are_sealed(
    tmp_path: Path,
) -> None:
    before = opened(tmp_path)
    found = sealed(before)
    after = opened(tmp_path, OTHER_KEY, wrapped=before.wrapped)
    assert after.unseal(found, **ROW) is None
    assert after.failure is not None
    assert str(tmp_path / "key") in after.failure
    assert "put the former key back" in after.failure
    assert after.is_new
    assert after.unseal(sealed(after), **ROW) == RAW
    later = opened(tmp_path, OTHER_KEY, wrapped=after.wrapped)
    assert (later.failure, later.unseal(sealed(after), **ROW)) == (None, RAW)


def test_a_wrong_key_and_then_the_right_one_loses_nothing_while_nothing_was_sealed(
    tmp_path: Path,
) -> None:
    before = opened(tmp_path)
    found = sealed(before)
    opened(tmp_path, OTHER_KEY, wrapped=before.wrapped)
    assert opened(tmp_path, KEY, wrapped=before.wrapped).unseal(found, **ROW) == RAW


@pytest.mark.parametrize("content", [None, b"", KEY[:31], bytes(32)])
def test_of_a_journal_whose_key_is_missing_nothing_is_unsealed_and_nothing_sealed(
    content: bytes | None, tmp_path: Path
) -> None:
    before = opened(tmp_path)
    path = key_file(tmp_path, content or b"")
    if content is None:
        path.unlink()
    after = at(path, before.wrapped)
    assert after.failure is not None
    assert f"--keep-secrets {path}" in after.failure
    assert "put back the key" in after.failure
    assert after.unseal(sealed(before), **ROW) is None
    assert after.seal(RAW, **ROW) is None
    assert (after.wrapped, after.is_new) == (None, False)


@pytest.mark.parametrize("content", [None, b"", KEY[:31], bytes(32)])
def test_without_a_key_no_journal_is_begun(content: bytes | None, tmp_path: Path) -> None:
    path = key_file(tmp_path, content or b"")
    if content is None:
        path.unlink()
    with pytest.raises(BadInput, match="openssl rand"):
        at(path, None)


@pytest.mark.parametrize("has_journal", [False, True])
def test_a_key_that_others_can_read_is_refused_whether_there_is_a_journal_or_not(
    has_journal: bool, tmp_path: Path
) -> None:
    before = opened(tmp_path)
    path = key_file(tmp_path)
    path.chmod(0o644)
    with pytest.raises(BadInput, match="mode 0644"):
        at(path, before.wrapped if has_journal else None)


def test_the_warning_about_the_file_is_passed_on(tmp_path: Path) -> None:
    path = key_file(tmp_path)
    data = tmp_path / "data"
    credential = Sealer.open(path, data_dir=data, credentials_dir=tmp_path, wrapped=None)
    assert credential.warning is None
    assert "LoadCredentialEncrypted" in str(at(path, None).warning)


# ── what is on disk, and what is shown ──


# Bytes of a secret in a row that are found: as they are, and as hex or base64 wherever it begins.
RUN = 8


def runs(content: bytes) -> set[bytes]:
    return {content[at : at + RUN] for at in range(len(content) - RUN + 1)}


def forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    yield from (b64encode(secret[at : at + len(secret) // 3 * 3 - 3]) for at in range(3))


def leaks(folder: Path, secrets: Iterable[bytes]) -> list[str]:
    """The files in which any run of any of these is."""
    sought = {run for secret in secrets for form in forms(secret) for run in runs(form)}
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if not sought.isdisjoint(runs(path.read_bytes()))]


def test_no_byte_of_a_secret_or_of_a_key_is_in_any_file_that_the_journal_writes(
    tmp_path: Path,
) -> None:
    (tmp_path / "keys").mkdir()
    data = tmp_path / "data"
    data.mkdir()
    sealer = opened(tmp_path / "keys")
    secrets = [shake_256(b"%d" % number).digest(40 + 500 * number) for number in range(20)]
    bare = shake_256(b"bare").digest(500)

    async def write(journal: Journal, saved: Saved) -> None:
        await journal.commit(Blob("sealing", b"data-key", sealer.wrapped))
        for number, secret in enumerate(secrets):
            await journal.commit(Blob("sealed", b"%d" % (number % 7), sealed(sealer, secret)))
        await journal.commit(
            Blob("sealed", b"3", None),
            *(Blob("bare", b"%d" % number, form) for number, form in enumerate(forms(bare))),
        )
        assert journal.failure is None
        check()

    def check() -> None:
        assert leaks(data, [*secrets, KEY]) == []
        # The search itself finds what is there, in each form.
        for form in forms(bare):
            assert leaks(data, [form[100:110]]), form

    play(data, write)
    check()


def test_a_secret_that_is_watched_by_name_is_written_sealed_and_a_list_of_all_is_not(
    sealer: Sealer,
) -> None:
    resource = ResourceName("", "v1", "secrets")
    by_name = ListScope(resource, "shop", fields=FieldSelector.parse("metadata.name=db"))
    secret = Item(("shop", "db"), 81, RAW)
    secrets = SealedSecrets(sealer)
    for scope, count in ((by_name, 2), (ListScope(resource, "shop"), 0)):
        listed = ListReplaced(scope, "SecretList", "v1", 81, [secret], 1.0)
        changed = EventsApplied(scope, 81, 82, [(secret.key, secret)], 1.0)
        written: list[bytes] = []
        for record in (*secrets.stored(listed), *secrets.stored(changed)):
            if isinstance(record, ListReplaced):
                written += [it.raw for it in record.items]
            elif isinstance(record, EventsApplied):
                written += [it.raw for _, it in record.changes if it is not None]
        assert len(written) == count
        assert not any(b"password" in it for it in written)


def test_no_representation_shows_anything_of_a_key(tmp_path: Path) -> None:
    sealer = opened(tmp_path)
    for shown in (repr(sealer), str(sealer), repr(sealer._cipher)):
        assert " object at " in shown


# ── the library ──


def run(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, str(key_file(folder))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


OPEN = """
from relay_sidecar.journal.sealing.sealer import Sealer
def use():
    path = Path(sys.argv[1])
    Sealer.open(path, data_dir=path.parent / "data", credentials_dir=None, wrapped=None)
"""


def test_the_library_is_imported_by_the_first_use_and_by_nothing_before(tmp_path: Path) -> None:
    """What is not used costs no memory."""
    program = f"import sys, relay_sidecar.app\nfrom pathlib import Path\n{OPEN}\n"
    program += "before = 'Crypto' in sys.modules; use(); print(before, 'Crypto' in sys.modules)"
    assert run(program, tmp_path) == "False True"


def test_without_the_library_the_flag_is_one_line_that_says_what_to_install(
    tmp_path: Path,
) -> None:
    program = f"import sys\nfrom pathlib import Path\nsys.modules['Crypto'] = None\n{OPEN}\n"
    program += "from edge_sidecars.runtime.cli.values import BadInput\n"
    program += "try: use()\nexcept BadInput as error: print(error)"
    told = run(program, tmp_path)
    assert told.startswith("--keep-secrets needs the Python package pycryptodome")
    assert "pip install" in told
    assert "\n" not in told
