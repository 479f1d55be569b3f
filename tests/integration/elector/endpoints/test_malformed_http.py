"""Bad queries and what is no HTTP at all: 4xx, never a traceback, and the process lives on."""

import pytest

from tests.integration.elector.pair import Pair
from tools.harness.pods.wire.http_client import answered


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        ("/readyz?min_remaining=abc", "'abc'", "15s"),
        ("/readyz?min_remaining=", "''", "15s"),
        ("/readyz?min_age=-1s", "'-1s'", "15s"),
        ("/readyz?wait=2h", "2h", "at most 3600s"),
        ("/readyz?wait=nan", "'nan'", "15s"),
        ("/readyz?wait=" + "9" * 5000, "999", "15s"),
        ("/readyz?token=x", "'x'", "/leader"),
        ("/readyz?token=-1", "'-1'", "/leader"),
        ("/readyz?token=" + "9" * 5000, "999", "/leader"),
        ("/readyz?min-remaining=3s", "'min-remaining'", "min_remaining"),
        ("/readyz?min_age=1s&min_age=2s", "'min_age'", "twice"),
        ("/readyz?%ff=1", "not UTF-8", "percent-encode"),
        ("/%ff", "not UTF-8", "percent-encode"),
        ("/readyz?min_age=%zz", "%zz", "15s"),
        ("/leader?watch=yes", "'yes'", "watch=true"),
        ("/leader?wach=true", "'wach'", "watch"),
    ],
)
def test_a_bad_query_is_400_with_the_value_and_the_remedy(
    pair: Pair, path: str, value: str, remedy: str
) -> None:
    for pod in (pair.leader, pair.standby):
        answer = answered(pod, path)
        assert answer.status == 400
        text = answer.body.decode()
        assert value in text
        assert remedy in text
        assert text.count("\n") == 1


@pytest.mark.parametrize(
    "query", ["cooldown=x", "cooldown=0", "cooldown=999ms", "cooldown=-1s", "cool=1s"]
)
def test_a_bad_cooldown_is_400_and_the_leader_stays(pair: Pair, query: str) -> None:
    assert answered(pair.leader, f"/resign?{query}", method="POST").status == 400
    assert pair.leader.is_leader()
