"""`node install` reads files that people name: a FIFO, a device or a folder is refused at once."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.x509 import DNSName

from edge_sidecars.runtime.certificates.maker import issue, new_key, pem
from relay_node.commands.node import main
from relay_node.file_state import MAX_INPUT

Make = Callable[[Path], object]


def _big(path: Path) -> None:
    path.touch(mode=0o600)
    os.truncate(path, MAX_INPUT + 1)


SPECIAL: dict[str, tuple[Make, str]] = {
    "a FIFO": (os.mkfifo, "not a regular file"),
    "a device": (lambda it: it.symlink_to("/dev/zero"), "not a regular file"),
    "a folder": (Path.mkdir, "Is a directory"),
    "a loop": (lambda it: it.symlink_to(it), "symbolic links"),
    "too big": (_big, "File too large|is longer than"),
}


def _kubeconfig(folder: Path) -> Path:
    pem = str(folder / "pem")
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": str(folder / "ca")}
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"client-certificate": pem, "client-key": pem}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


@pytest.mark.timeout(30)
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", ["kubeconfig", "ca", "pem", "client-ca", "key", "sticky-ipam"])
def test_what_is_no_file_is_named_at_once(
    name: str,
    special: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Without systemctl a dry run asks no program.
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    _kubeconfig(tmp_path)
    key = new_key()
    authority = issue("CA", key.public_key(), key=key, may_sign_for=[DNSName("x")])
    (tmp_path / "ca").write_bytes(pem(authority))
    make, said = SPECIAL[special]
    (tmp_path / name).unlink(missing_ok=True)
    make(tmp_path / name)
    is_plugin = name == "sticky-ipam"
    flags = {
        "kubelet-kubeconfig": tmp_path / "kubeconfig",
        "client-ca-file": tmp_path / ("client-ca" if name == "client-ca" else "ca"),
        "keep-secrets": tmp_path / "key" if name == "key" else "none",
        "sticky-ipam": tmp_path / "sticky-ipam" if is_plugin else "none",
        "data-dir": tmp_path / "data",
    }
    words = [f"--{flag}={value}" for flag, value in flags.items()]
    assert main(["install", "--dry-run", *words], {}) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert str(tmp_path / name) in line
    assert re.search(said, line)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", ["kubeconfig", "pem"])
@pytest.mark.parametrize("command", ["status", "doctor", "ipam-gc"])
def test_who_only_looks_waits_for_no_fifo_either(
    command: str,
    name: str,
    special: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    kubeconfig = _kubeconfig(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    make, said = SPECIAL[special]
    make(tmp_path / name)
    places = [f"--data-dir={tmp_path / 'data'}", f"--kubeconfig={kubeconfig}"]
    relay = [] if command == "ipam-gc" else ["--listen=127.0.0.1:1", "--url=http://127.0.0.1:1"]
    assert main([command, *places, *relay], {}) in (1, 2)
    told = capsys.readouterr()
    # Doctor goes on without the certificate that a link does not lead to.
    is_named = re.search(f"{said}|does not exist", told.out + told.err)
    assert is_named or (command, name) == ("status", "pem")
