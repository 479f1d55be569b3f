"""The manual's relay as a service: its unit is one for systemd, and its flags serve kubectl."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.repository.checkout import block, fences
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.controlplane.fixtures import lack, require_program
from tools.harness.pods.relay import RelayProcess

PAGE = "docs/how-to/relay-as-a-service.md"
PROGRAM = "/opt/relay-sidecar/bin/relay-sidecar"
FOLDER = "/etc/relay-sidecar"
# Seconds on a busy machine.
TIMEOUT = 60.0


def _unit() -> str:
    [text] = [text for title, _, text in fences(PAGE) if title == "The unit" and "[Unit]" in text]
    return text


def test_the_unit_is_one_for_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze") or lack("systemd-analyze is missing")
    unit = tmp_path / "relay-sidecar.service"
    unit.write_text(_unit().replace(PROGRAM, sys.executable), encoding="utf-8")
    done = _run(tmp_path, analyze, "verify", "--man=no", str(unit))
    told = [line for line in done.stderr.splitlines() if "relay-sidecar" in line]
    assert (done.returncode, told) == (0, []), done.stderr


def test_kubectl_reads_through_it_and_a_stranger_does_not(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    shutil.copy(control_plane.admin_kubeconfig(), folder / "upstream.kubeconfig")
    (start,) = re.findall(r"^ExecStart=(.+)$", _unit().replace("\\\n", " "), re.M)
    program, *flags = shlex.split(start.replace(FOLDER, str(folder)))
    assert program == PROGRAM
    relay = RelayProcess([it for it in flags if not it.startswith("--data-dir=")])
    script = block(PAGE, "The certificate and the token of its clients", "sh")
    listen = f"kubeconfig --listen=127.0.0.1:{relay.port} "
    _run(
        tmp_path, "bash", "-ec", script.replace(FOLDER, str(folder)).replace("kubeconfig ", listen)
    )
    kubectl = [require_program("kubectl"), "get", "configmaps", f"--namespace={namespace}"]
    with relay:
        read = _run(tmp_path, *kubectl, f"--kubeconfig={folder / 'kubeconfig'}")
        assert read.returncode == 0, read.stderr
        stranger = _run(tmp_path, *kubectl, f"--server={relay.url}", "--insecure-skip-tls-verify")
        assert stranger.returncode != 0


def _run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize("file", ["clients.token", "serving.key", "kubeconfig"])
def test_each_secret_file_gets_a_mode(file: str) -> None:
    script = block(PAGE, "The certificate and the token of its clients", "sh")
    (line,) = (it for it in script.splitlines() if it.startswith("chmod 640"))
    assert file in line.split()
