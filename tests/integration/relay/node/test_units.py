"""The units that `node install` writes, read by systemd itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from relay_node.installer import snapshot
from relay_node.installer.systemd import units

PROGRAM = ["/bin/true"]
CREDENTIAL = ("relay-sidecar-key", Path("/etc/credstore.encrypted/relay-sidecar-key"))


def written(folder: Path) -> list[Path]:
    data_dir, kubeconfig = Path("/var/lib/relay sidecar"), Path("/etc/kubernetes/kubelet.conf")
    texts = {
        units.RELAY: units.relay(
            PROGRAM,
            prepare=["node", "prepare", f"--data-dir={data_dir}"],
            flags=["--listen=127.0.0.1:10550", "--server=https://h/%7e?$x"],
            credential=CREDENTIAL,
        ),
        **units.snapshot(PROGRAM, data_dir=data_dir, watched=snapshot.SAVED),
        **units.ipam_gc(PROGRAM, data_dir=data_dir, kubeconfig=kubeconfig),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def test_systemd_understands_each_line(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        message = "systemd-analyze is missing: apt-get install systemd"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(message)
        pytest.skip(message)
    command = [program, "verify", "--man=no", *map(str, written(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    about = [line for line in done.stderr.splitlines() if str(tmp_path) in line]
    assert about == [], done.stderr
    assert done.returncode == 0, done.stderr
