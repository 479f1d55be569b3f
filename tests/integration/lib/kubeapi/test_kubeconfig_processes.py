"""Programs that are given a kubeconfig: what they use of it, and that nothing of it is left."""

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import LEASE
from tools.harness.pods.observers.observer import wait_for
from tools.harness.pods.relay import RelayProcess
from tools.harness.pods.wire.caller import Caller

READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
# Seconds: a probe a second, and a machine that is busy.
SOON = 10.0


@pytest.fixture
def space(control_plane: ControlPlane) -> str:
    return control_plane.create_namespace()


def with_user(path: Path, user: dict[str, Any]) -> Path:
    """The kubeconfig for another user."""
    content = json.loads(path.read_text())
    content["users"][0]["user"] = user
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(params=["relay", "elector"])
def program(
    request: pytest.FixtureRequest, control_plane: ControlPlane, space: str, tmp_path: Path
) -> Iterator[RelayProcess | ElectorPod]:
    """One with the client certificate of an administrator, all of it within its kubeconfig."""
    flags = [f"--kubeconfig={control_plane.admin_kubeconfig()}"]
    environ = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    if request.param == "relay":
        with RelayProcess(flags, environ=environ) as relay:
            relay.wait_link(up=True)
            yield relay
    else:
        flags += ["--namespace", space, "--on-missing=take"]
        with ElectorPod("pod", LEASE, flags, environ) as elector:
            elector.start()
            wait_for(lambda: elector.leader()["role"] == "leader", timeout=30, what="a leader")
            yield elector


def open_files(pid: int) -> list[str]:
    """But for those that are closed meanwhile."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return found


def test_a_program_that_is_killed_leaves_nothing_of_its_kubeconfig(
    program: RelayProcess | ElectorPod, tmp_path: Path
) -> None:
    opened = open_files(program.pid)
    assert opened
    assert not [each for each in opened if "certificate" in each or "key" in each]
    program.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_token_file_may_end_with_a_newline_and_a_bad_one_is_named_until_it_is_corrected(
    control_plane: ControlPlane, space: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig_for(space, "relay", READ)
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    file = tmp_path / "token"
    file.write_text(f"{token[:20]}\n{token[20:]}")
    flags = [f"--kubeconfig={with_user(kubeconfig, {'tokenFile': str(file)})}"]
    path = f"/api/v1/namespaces/{space}/configmaps"
    with RelayProcess(flags) as relay:
        refused = Caller(relay.url).get(path)
        assert refused.status == 503
        told = f"{file} is not a token"
        wait_for(lambda: told in relay.log_text(), timeout=SOON, what="the file in the log")
        assert token[:20] not in relay.log_text()
        file.write_text(f"{token}\n")
        wait_for(lambda: Caller(relay.url).get(path).status == 200, timeout=SOON, what="200")
        assert "Traceback" not in relay.log_text()


@pytest.mark.parametrize("access", ["own", "caller"])
def test_no_token_is_in_any_line_of_the_log(
    control_plane: ControlPlane, space: str, access: str
) -> None:
    """Neither the relay's own nor a caller's, with all that it can log."""
    kubeconfig = control_plane.kubeconfig_for(space, "relay", READ)
    own = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    flags = [f"--kubeconfig={kubeconfig}", f"--access={access}", "--log-level=debug"]
    control_plane.service_account_dir(space, "caller", READ)
    path, invented = f"/api/v1/namespaces/{space}/configmaps", "made-up-4711"
    with RelayProcess([*flags, "--log-refusals=true"]) as relay:
        relay.wait_link(up=True)
        for token in (control_plane.new_token(space, "caller"), invented):
            for asked in (path, path.replace("configmaps", "secrets"), f"{path}/none"):
                caller = Caller(relay.url, headers={"Authorization": f"Bearer {token}"})
                assert caller.get(asked).status in (200, 401, 403, 404)
            log = relay.log_text()
            for part in {*own.split("."), *token.split(".")}:
                assert part not in log
        assert "level=debug" in log or "DEBUG" in log, log[:500]


def test_a_plugin_that_is_refused_is_asked_for_a_new_token(
    control_plane: ControlPlane, space: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig_for(space, "relay", READ)
    token = json.loads(kubeconfig.read_text())["users"][0]["user"]["token"]
    version = "client.authentication.k8s.io/v1"
    said = tmp_path / "said"

    def says(token: str) -> None:
        status = {"token": token}
        content = {"apiVersion": version, "kind": "ExecCredential", "status": status}
        said.write_text(json.dumps(content))

    says("nobody")
    program = f"print(open({str(said)!r}).read())"
    plugin = {"apiVersion": version, "command": sys.executable, "args": ["-c", program]}
    flags = [f"--kubeconfig={with_user(kubeconfig, {'exec': plugin})}"]
    path = f"/api/v1/namespaces/{space}/configmaps"
    with RelayProcess(flags) as relay:
        wait_for(lambda: Caller(relay.url).get(path).status == 401, timeout=SOON, what="401")
        says(token)
        wait_for(lambda: Caller(relay.url).get(path).status == 200, timeout=SOON, what="200")
        assert "Traceback" not in relay.log_text()
