"""What the tutorials say to type on one machine works, word for word, and shows what they say.

Only ports differ: free ones take the place of those in the documents.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.repository.typed import laid_out, typed
from tools.harness.controlplane.fixtures import lack, require_program

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
    return laid_out(tmp_path)


@pytest.mark.slow
def test_the_relay_can_be_tried_as_its_tutorial_says(folder: Path) -> None:
    output = typed("docs/tutorials/relay.md", RELAY, folder)
    lists = re.findall(r'^\{"kind":"ConfigMapList".*"resourceVersion":"(\d+)".*$', output, re.M)
    online, cut, restarted = (line for line in output.splitlines() if "ConfigMapList" in line)
    assert len(lists) == 3
    assert '"text":"hello"' in online
    assert online == cut == restarted
    assert output.count("\nAge: ") == 2
    assert output.count("503 Service Unavailable") == 1
    ages = re.findall(r"^Python sees greeting at an age of (\d+) s$", output, re.M)
    assert len(ages) == 3
    assert ages[0] == "0"
    assert int(ages[2]) >= int(ages[1]) > 0
    # kubectl's column of the name, online and cut.
    assert len(re.findall("^greeting ", output, re.M)) == 2
    assert re.search(r"^LINK +not up since this relay started", output, re.M)
    assert re.search(r"^configmaps\.v1 .* 1 ", output, re.M)
    assert not (folder / "relay-data").exists()


@pytest.mark.slow
def test_three_operators_share_a_relay_as_their_tutorial_says(folder: Path) -> None:
    output = typed("docs/tutorials/operators.md", OPERATORS, folder)
    rows = re.findall(r"^configmaps\.v1 .* (\d+)$", output, re.M)
    # With all watches at first, while cut, and when the link is back.
    assert rows == ["3", "3", "3"]
    counts = re.findall(r"^relay_events_(received|sent)_total(?:{})? (\d+)$", output, re.M)
    received, sent = (int(number) for _, number in counts)
    assert sent == 3 * received > 0
    assert "A write is answered with 503" in output
    assert re.search(r"^LINK +down for", output, re.M)
    assert "alarm of press is now on" in output
    cut, back = re.findall(r"(?:^press at .*\n)+", output, re.M)[-2:]
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
    output = typed("docs/tutorials/pool.md", POOL, folder, network=own_network)
    lent = re.search(r"^n1 .* Lent +(n\d)", output, re.M)
    assert lent is not None
    assert lent[1] in ("n2", "n3")
    assert "Ready of n1 is True" in output
    assert re.search(r"^n3 +Silent", output, re.M)
    assert "pool.edge-sidecars.io/dead" in output
    assert re.search(r"^n3 .* Dead ", output, re.M)
    assert not (folder / "site").exists()


@pytest.mark.long
@pytest.mark.slow
def test_a_job_of_sedna_survives_its_gm_as_its_tutorial_says(folder: Path) -> None:
    output = typed("docs/tutorials/sedna.md", SEDNA, folder)
    first, second = re.findall(r"^The leader is (gm-\d)_", output, re.M)
    assert first != second
    for number in (1, 2):
        for stage in ("Train", "Eval", "Deploy"):
            assert f"{stage} Completed {number}" in output
    assert not (folder / "edge-a").exists()
