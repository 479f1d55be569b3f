"""The first elector that somebody tries, in a shell, before a real API server: it finds the
kubeconfig, says why it waits, and says at Ctrl-C when the next leader comes.
"""

import signal

import pytest

from tools.harness.controlplane.clients.answer import ask
from tools.harness.pods.elector import ElectorPod
from tools.harness.pods.fleet import FAST, Fleet
from tools.harness.pods.observers.observer import wait_for
from tools.harness.processes.command import run


def _in_a_shell(fleet: Fleet, *flags: str) -> ElectorPod:
    """Started; nobody asks it anything."""
    kubeconfig = fleet.plane.admin_kubeconfig()
    flags = ("--namespace", fleet.namespace, *FAST, *flags)
    pod = ElectorPod("laptop", fleet.lease, list(flags), {"KUBECONFIG": str(kubeconfig)})
    return pod.start()


def _line(pod: ElectorPod, message: str) -> dict[str, object]:
    wait_for(
        lambda: any(line["message"] == message for line in pod.log_lines()),
        timeout=20,
        what=message,
    )
    return next(line for line in pod.log_lines() if line["message"] == message)


def test_it_finds_the_kubeconfig_says_why_it_waits_and_releases_at_ctrl_c(fleet: Fleet) -> None:
    with _in_a_shell(fleet) as pod:
        assert str(_line(pod, "contending")["credentials"]).startswith("$KUBECONFIG /")
        missing = _line(pod, "the Lease does not exist")
        assert "free in" in str(missing["reason"])
        assert "--on-missing take" in str(missing["why"])
        _line(pod, "became leader")
        pod.signal(signal.SIGINT)
        assert pod.wait() == 0
        assert _line(pod, "the Lease is released")["lease"] == f"{fleet.namespace}/{fleet.lease}"
    assert fleet.spec().get("holderIdentity", "") == ""


def test_a_missing_lease_is_the_reason_as_long_as_it_is_waited_for(fleet: Fleet) -> None:
    with _in_a_shell(fleet) as pod:
        _line(pod, "the Lease does not exist")
        wait_for(lambda: fleet.get_lease() is not None, timeout=20, what="the empty Lease")
        wait_for(
            lambda: "did not exist, and a leader that is cut off" in pod.leader()["reason"],
            timeout=3,
            what="the reason",
        )


@pytest.mark.parametrize(
    ("path", "listener"),
    [("/readyz", 0), ("/leader", 0), ("/", 0), ("/readyz", 1), ("/leader", 1)],
)
def test_once_anybody_was_told_of_the_lead_ctrl_c_lets_the_lease_expire_and_says_so(
    path: str, listener: int, fleet: Fleet
) -> None:
    fleet.create_empty_lease()
    with _in_a_shell(fleet, "--probe-listen=127.0.0.1:0") as pod:
        _line(pod, "became leader")
        listening = str(_line(pod, "contending")["listen"]).split(",")[listener]
        answer = ask(int(listening.rpartition(":")[2]), path)
        assert answer is not None
        assert answer.status == 200
        identity = pod.identity
        pod.signal(signal.SIGINT)
        assert pod.wait() == 0
        line = _line(pod, "the Lease is left to expire: the main may be at work")
        assert line["next_leader_within"] == "4s"
        assert "--release-on-term" in str(line["remedy"])
    assert fleet.spec()["holderIdentity"] == identity


def test_without_rights_status_does_not_say_that_nobody_leads(fleet: Fleet) -> None:
    fleet.create_empty_lease()
    account = fleet.plane.service_account_dir(fleet.namespace, "stranger", [])
    with fleet.add(credentials=account) as pod:
        _line(pod, "reading the Lease failed")
        done = run("status", "--url", f"http://127.0.0.1:{pod.port}")
        rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
        assert rows["LEADER"] == "unknown"
        assert "needs Role in namespace" in rows["HERE"]
        done = run(
            *("status", "--lease", fleet.lease, "--namespace", fleet.namespace),
            *("--server", fleet.plane.server, "--service-account-dir", str(account.path)),
            environ={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "HOME": "/nowhere"},
        )
        assert done.returncode == 1
        assert f'resourceNames: ["{fleet.lease}"], verbs: ["get"]' in done.stderr
