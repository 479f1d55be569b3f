"""What the tutorials say to type on one machine works, word for word, and shows what they say.

Only ports differ: free ones take the place of those in the documents.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.repository.checkout import ROOT, blocks
from tools.harness.controlplane.fixtures import lack, require_program
from tools.harness.controlplane.reservation import Reservation

# Seconds on a busy machine; a quiet one needs 15, the job of Sedna 50, the site 150.
TIMEOUT = 400.0
PROGRAMS = Path(sys.executable).parent
# Headings of the pages, in their order.
RELAY = (
    "Start a cloud and a relay",
    "Write and read through it",
    "Read from Python",
    "Cut the link",
    "Restart the relay while the link is down",
    "Clean up",
)
OPERATORS = (
    "Start a cloud and one relay",
    "Write the operators",
    "Run all three",
    "Count the watches",
    "Cut the link",
    "Change something that the edge cannot see",
    "Clean up",
)
POOL = (
    "Start the site",
    "Make it a pool",
    "Cut the link of a node",
    "Let a node die",
    "Clean up",
)
SEDNA = (
    "Start a cloud",
    "Start two GMs",
    "Start an edge node",
    "Start the job",
    "Kill the leading GM",
    "See the job go on",
    "Clean up",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As a checkout looks to the tutorials."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(require_program("kubectl"))
    (tmp_path / ".venv").symlink_to(PROGRAMS.parent)
    for name in ("examples", "manifests"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.slow
def test_the_relay_can_be_tried_as_its_tutorial_says(folder: Path) -> None:
    told = _typed("docs/tutorials/relay.md", RELAY, folder)
    lists = re.findall(r'^\{"kind":"ConfigMapList".*"resourceVersion":"(\d+)".*$', told, re.M)
    online, cut, restarted = (line for line in told.splitlines() if "ConfigMapList" in line)
    assert len(lists) == 3
    assert '"text":"hello"' in online
    assert online == cut == restarted
    assert told.count("\nAge: ") == 2
    assert told.count("503 Service Unavailable") == 1
    ages = re.findall(r"^Python sees greeting at an age of (\d+) s$", told, re.M)
    assert len(ages) == 3
    assert ages[0] == "0"
    assert int(ages[2]) >= int(ages[1]) > 0
    # kubectl's column of the name, online and cut.
    assert len(re.findall("^greeting ", told, re.M)) == 2
    assert re.search(r"^LINK +not up since this relay started", told, re.M)
    assert re.search(r"^configmaps\.v1 .* 1 ", told, re.M)
    assert not (folder / "relay-data").exists()


@pytest.mark.slow
def test_three_operators_share_a_relay_as_their_tutorial_says(folder: Path) -> None:
    told = _typed("docs/tutorials/operators.md", OPERATORS, folder)
    rows = re.findall(r"^configmaps\.v1 .* (\d+)$", told, re.M)
    # With all watches at first, while cut, and when the link is back.
    assert rows == ["3", "3", "3"]
    counts = re.findall(r"^relay_events_(received|sent)_total(?:{})? (\d+)$", told, re.M)
    received, sent = (int(number) for _, number in counts)
    assert sent == 3 * received > 0
    assert "A write is answered with 503" in told
    assert re.search(r"^LINK +down for", told, re.M)
    assert "alarm of press is now on" in told
    cut, back = re.findall(r"(?:^press at .*\n)+", told, re.M)[-2:]
    assert "press at 200" not in cut
    assert "press at 200 alarm on\npress at 200 alarm off\n" in back
    assert not [*folder.glob("*.py"), *folder.glob("relay*")]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_site_of_three_nodes_is_as_its_tutorial_says(folder: Path) -> None:
    for name in ("kube-apiserver", "etcd", "kube-controller-manager"):
        require_program(name)
    own_network = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*own_network, "true"], check=False).returncode:
        lack("unshare cannot make a network of its own")
    told = _typed("docs/tutorials/pool.md", POOL, folder, network=own_network)
    lent = re.search(r"^n1 .* Lent +(n\d)", told, re.M)
    assert lent is not None
    assert lent[1] in ("n2", "n3")
    assert "Ready of n1 is True" in told
    assert re.search(r"^n3 +Silent", told, re.M)
    assert "pool.edge-sidecars.io/dead" in told
    assert re.search(r"^n3 .* Dead ", told, re.M)
    assert not (folder / "site").exists()


@pytest.mark.long
@pytest.mark.slow
def test_a_job_of_sedna_survives_its_gm_as_its_tutorial_says(folder: Path) -> None:
    told = _typed("docs/tutorials/sedna.md", SEDNA, folder)
    first, second = re.findall(r"^The leader is (gm-\d)_", told, re.M)
    assert first != second
    for number in (1, 2):
        for stage in ("Train", "Eval", "Deploy"):
            assert f"{stage} Completed {number}" in told
    assert not (folder / "edge-a").exists()


def _typed(name: str, titles: Sequence[str], folder: Path, *, network: Sequence[str] = ()) -> str:
    """What the commands of a document print; they end at the first that fails, and everything that
    they started ends with them. On free ports, unless `network`, a command that becomes a shell,
    gives them a network of their own."""
    script = "\n".join(text for title in titles for text in blocks(name, title, "sh"))
    ports = [] if network else sorted(set(re.findall(r"127\.0\.0\.1:(105\d\d)", script)))
    held = {port: Reservation() for port in ports}
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    environ = {"HOME": str(folder), "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": cache}
    environ["PATH"] = f"{folder / 'bin'}:{PROGRAMS}:{os.environ['PATH']}"
    # Also where it is the number of a port alone.
    script = re.sub(
        r"\b105\d\d\b", lambda it: str(held[it[0]].port) if it[0] in held else it[0], script
    )
    # Where no flag names them.
    for name, port in (("RELAY_LISTEN", "10550"), ("RELAY_STATUS_LISTEN", "10551")):
        if port in held:
            environ[name] = f"127.0.0.1:{held[port].port}"
    process = subprocess.Popen(
        [*network, "bash", "-c", f"set -e\n{script}\nwait"],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, errors = process.communicate(timeout=TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        for reservation in held.values():
            reservation.release()
    assert process.returncode == 0, f"{told}\n{errors}"
    assert "Traceback" not in errors, errors
    return told
