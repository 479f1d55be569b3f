"""Variables that look like those of a program."""

import pytest

from edge_sidecars.runtime.cli.environment import unknown_variables
from edge_sidecars.runtime.cli.nearest import distance, nearest
from elector_sidecar.config.config import parser as elector_parser
from lc.config.config import parser as lc_parser


def test_a_variable_within_two_letters_of_a_known_one_is_told() -> None:
    environ = {
        "ELECTOR_LAESE": "l",
        "ELECTOR_HEALTHURL": "u",
        "ELECTOR_LEASE": "l",
        "ELECTOR_SOMETHING": "else",
    }
    assert [*unknown_variables(elector_parser(), environ, prefix="ELECTOR_")] == [
        ("ELECTOR_HEALTHURL", "ELECTOR_HEALTH_URL"),
        ("ELECTOR_LAESE", "ELECTOR_LEASE"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LC_ALL", "C.UTF-8"),  # beside LC_API
        ("LC_NAME", "de_DE"),  # beside LC_NODE
        ("LC_PORT", "tcp://10.0.0.1:80"),  # of a Service named lc, beside LC_ROOT
        ("LC_SERVICE_HOST", "10.0.0.1"),
        ("LC_PORT_80_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_what_a_shell_or_kubelet_sets_is_no_mistake(name: str, value: str) -> None:
    assert [*unknown_variables(lc_parser(), {name: value}, prefix="LC_")] == []


def test_the_nearest_word_has_the_fewest_letters_to_change() -> None:
    assert distance("lease", "laese") == 2
    assert distance("", "ab") == 2
    assert nearest("leas", ["lock", "lease", "leave"]) == "lease"
    assert nearest("lease", ["server"]) is None
