"""The file of --keep-secrets: what is a key, where it may lie, and who may read it."""

import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_sidecars.runtime.cli.values import BadInput
from relay_sidecar.journal.sealing.key_file import FileKey, NoKey, parse_key, read_key_file
from tests.examples import examples

# Not text, so that it is a key also raw; with characters that differ in the two base64 alphabets.
KEY = bytes(range(0xE0, 0x100))
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "raw": bytes,
    "hex": lambda key: key.hex().encode(),
    "upper hex": lambda key: key.hex().upper().encode() + b"\r\n",
    "base64": lambda key: b64encode(key) + b"\n",
    "url-safe base64": urlsafe_b64encode,
    "base64 without padding": lambda key: b" " + b64encode(key).rstrip(b"="),
}


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def read(path: Path, *, credentials_dir: Path | None = None) -> FileKey:
    return read_key_file(path, data_dir=path.parent / "data", credentials_dir=credentials_dir)


def refused(path: Path, *, credentials_dir: Path | None = None) -> BadInput:
    with pytest.raises(BadInput) as raised:
        read(path, credentials_dir=credentials_dir)
    assert str(raised.value).startswith(f"--keep-secrets {path}")
    assert "\n" not in str(raised.value)
    return raised.value


# ── what is a key ──


@pytest.mark.parametrize("form", FORMS)
def test_a_key_may_be_raw_hex_or_base64(form: str, tmp_path: Path) -> None:
    assert read(written(tmp_path / "key", FORMS[form](KEY))).key == KEY


def _is_random(key: bytes) -> bool:
    return len(set(key)) > 1 and any(byte > 0x7E for byte in key)


@settings(max_examples=examples(200), deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32).filter(_is_random), form=st.sampled_from(sorted(FORMS))
)
def test_each_form_of_a_random_key_is_read_as_that_key(key: bytes, form: str) -> None:
    assert parse_key(FORMS[form](key)) == key


@settings(max_examples=examples(300), deadline=None)
@given(content=st.binary(max_size=100) | st.text("0123456789abcdefABCDEF=+/ \n").map(str.encode))
def test_any_content_is_a_key_of_32_bytes_or_one_line(content: bytes) -> None:
    assert re.fullmatch(rb"(?s:.{32})|it[^\n]+", _parsed(content))


def _parsed(content: bytes) -> bytes:
    try:
        return parse_key(content)
    except BadInput as error:
        return str(error).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (KEY[:31], "31 bytes are neither"),
        (KEY + b"\n", "33 bytes are neither"),
        (KEY * 2, "64 bytes are neither"),
        (KEY.hex()[:-1].encode(), "63 bytes are neither"),
        (KEY.hex().encode() + b"00", "66 bytes are neither"),
        (b"g" + KEY.hex()[1:].encode(), "64 bytes are neither"),
        (b64encode(KEY[:24]) + b"\n", "33 bytes are neither"),
        (b64encode(KEY * 2), "88 bytes are neither"),
        (b64encode(KEY)[:42] + b"==", "44 bytes are neither"),
        (KEY[:16].hex().encode(), "32 characters of text"),
        (b"correct horse battery staple 12\n", "32 characters of text"),
        (bytes(32), "same byte 32 times"),
        (b"0" * 64, "same byte 32 times"),
        (b"A" * 43 + b"=", "same byte 32 times"),
        (KEY.hex().encode() + b" " * 5000, "longer than 4096 bytes"),
    ],
)
def test_what_is_no_key_is_one_line_with_the_file_and_the_remedy(
    content: bytes, told: str, tmp_path: Path
) -> None:
    error = refused(written(tmp_path / "key", content))
    assert isinstance(error, NoKey)
    assert told in str(error)
    assert "openssl rand" in str(error)


def _missing(path: Path) -> None:
    """Nothing is there."""


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("make", "told"),
    [
        (_missing, "No such file"),
        (_dangling, "No such file"),
        (_loop, "symbolic links"),
        (lambda path: path.mkdir(), "Is a directory"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
    ],
    ids=["missing", "dangling link", "loop", "directory", "fifo", "device"],
)
def test_what_is_no_file_is_one_line_and_does_not_block(
    make: Callable[[Path], None], told: str, tmp_path: Path
) -> None:
    make(tmp_path / "key")
    error = refused(tmp_path / "key")
    assert isinstance(error, NoKey)
    assert told in str(error)
    assert "openssl rand" in str(error)


# ── who may read it ──


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o644, 0o440, 0o777])
def test_a_file_that_others_can_get_at_is_refused(mode: int, tmp_path: Path) -> None:
    error = refused(written(tmp_path / "key", KEY, mode))
    assert not isinstance(error, NoKey)
    assert f"mode {mode:04o}" in str(error)
    assert f"chmod 0600 {tmp_path / 'key'}" in str(error)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "key", KEY)
    os.chown(path, 12345, -1)
    error = refused(path)
    assert not isinstance(error, NoKey)
    assert "user 12345" in str(error)
    assert "chown" in str(error)


def test_an_exposed_file_is_refused_as_that_whatever_it_holds(tmp_path: Path) -> None:
    assert not isinstance(refused(written(tmp_path / "key", b"", 0o644)), NoKey)


# ── where it may lie ──


@pytest.mark.parametrize("place", ["key", "below/key", "../elsewhere/../data/key"])
def test_a_key_beside_what_it_protects_is_refused(place: str, tmp_path: Path) -> None:
    (tmp_path / "data" / "below").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    path = written(tmp_path / "data" / place, KEY)
    with pytest.raises(BadInput, match="lies in --data-dir") as raised:
        read_key_file(path, data_dir=tmp_path / "data", credentials_dir=None)
    assert not isinstance(raised.value, NoKey)
    assert "move it" in str(raised.value)


def test_a_link_into_the_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "key").symlink_to(written(tmp_path / "data" / "key", KEY))
    assert "lies in --data-dir" in str(refused(tmp_path / "key"))


def test_a_data_directory_that_is_a_link_protects_its_target(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    path = written(tmp_path / "disk" / "key", KEY)
    with pytest.raises(BadInput, match="lies in --data-dir"):
        read_key_file(path, data_dir=tmp_path / "data", credentials_dir=None)


def test_a_folder_whose_name_begins_like_the_data_directory_is_another(tmp_path: Path) -> None:
    (tmp_path / "data-of-others").mkdir()
    path = written(tmp_path / "data-of-others" / "key", KEY)
    assert read_key_file(path, data_dir=tmp_path / "data", credentials_dir=None).key == KEY


def test_a_file_that_is_no_credential_is_used_with_a_warning(tmp_path: Path) -> None:
    warning = read(written(tmp_path / "key", KEY)).warning
    assert warning is not None
    assert str(tmp_path / "key") in warning
    assert "LoadCredentialEncrypted" in warning
    assert "\n" not in warning


@pytest.mark.parametrize("mode", [0o400, 0o440])
def test_a_systemd_credential_is_used_without_a_warning_also_of_a_user_by_acl(
    mode: int, tmp_path: Path
) -> None:
    path = written(tmp_path / "key", KEY, mode)
    assert read(path, credentials_dir=tmp_path) == FileKey(KEY, None)


@pytest.mark.parametrize("mode", [0o404, 0o460, 0o442])
def test_a_credential_that_others_can_get_at_is_refused(mode: int, tmp_path: Path) -> None:
    error = refused(written(tmp_path / "key", KEY, mode), credentials_dir=tmp_path)
    assert not isinstance(error, NoKey)
    assert f"mode {mode:04o}" in str(error)


def test_a_link_out_of_the_credentials_is_no_credential(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    path = tmp_path / "credentials" / "key"
    path.symlink_to(written(tmp_path / "key", KEY))
    assert read(path, credentials_dir=tmp_path / "credentials").warning is not None


# ── what is shown of it ──


@pytest.mark.parametrize("form", FORMS)
def test_neither_messages_nor_representations_show_anything_of_the_key(
    form: str, tmp_path: Path
) -> None:
    content = FORMS[form](KEY)
    shown = [repr(read(written(tmp_path / "key", content)))]
    shown += [str(refused(written(tmp_path / "key", content * 2)))]
    shown += [str(refused(written(tmp_path / "key", content, 0o644)))]
    for text in shown:
        assert KEY.hex()[:8] not in text.lower()
        assert b64encode(KEY).decode()[:8] not in text
        assert repr(KEY)[2:18] not in text
