"""The key and certificate of a member, in its data directory."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from pool_sidecar.core.members import common_name, to_der
from pool_sidecar.lan.certificate import FILE, own_certificate, write_private
from pool_sidecar.lan.tls import is_pair


def test_a_new_node_gets_a_pair_under_its_name_which_its_owner_alone_reads(tmp_path: Path) -> None:
    made = own_certificate(tmp_path / "new", "n1")
    assert is_pair(made.certificate, made.key)
    assert common_name("n1").encode() in to_der(made.certificate)
    assert stat.S_IMODE((tmp_path / "new" / FILE).stat().st_mode) == 0o600


def test_all_that_a_member_keeps_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Whatever the umask, and whatever was there."""
    path, umask = tmp_path / "token", os.umask(0)
    try:
        write_private(path, "one")
        path.chmod(0o644)
        write_private(path, "two")
    finally:
        os.umask(umask)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two", 0o600)


def test_what_is_kept_is_used_again_and_what_cannot_be_is_replaced(tmp_path: Path) -> None:
    first = own_certificate(tmp_path, "n1")
    assert own_certificate(tmp_path, "n1") == first
    of_another_node = own_certificate(tmp_path, "n2")
    assert of_another_node != first
    (tmp_path / FILE).write_text(of_another_node.certificate)
    without_key = own_certificate(tmp_path, "n2")
    assert without_key != of_another_node
    (tmp_path / FILE).write_text(of_another_node.certificate + without_key.key)
    assert own_certificate(tmp_path, "n2") not in (of_another_node, without_key)


def test_the_process_keeps_nothing_of_what_made_the_key(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from pool_sidecar.lan.certificate import "
        "own_certificate; own_certificate(Path(sys.argv[1]), 'n1'); "
        "print('cryptography' in sys.modules)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"False\n"


def test_a_key_is_made_where_the_program_alone_knows_its_packages(tmp_path: Path) -> None:
    """As in an image, whose interpreter by itself finds none of them."""
    script = (
        "import sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path; "
        "from pool_sidecar.lan.certificate import own_certificate; "
        "own_certificate(Path(sys.argv[1]), 'n1')"
    )
    bare = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
    command = [bare, "-IB", "-c", script, str(tmp_path), *filter(None, sys.path)]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / FILE).exists()


def test_a_key_that_cannot_be_made_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "python"
    broken.write_text(
        "#!/bin/sh\necho Traceback >&2\necho 'ImportError: no cryptography' >&2\nexit 1"
    )
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(BadInput, match=r"^no key can be made: ImportError: no crypt"):
        own_certificate(tmp_path / "data", "n1")
    assert not (tmp_path / "data" / FILE).exists()
