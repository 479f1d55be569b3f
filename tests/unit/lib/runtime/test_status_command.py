"""What `status` commands share: tables, ages, and what they say where there is nothing to show."""

from collections.abc import Mapping

import pytest

from edge_sidecars.runtime.cli.status_command import StatusCommand, StatusDocument, age, aligned
from edge_sidecars.runtime.cli.values import Address, BadInput, address


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (3600, "1h"),
        (3725, "1h2m"),
        (86399, "23h59m"),
        (90061, "1d1h"),
        (8640000, "100d"),
    ],
)
def test_an_age_has_two_units_at_most(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_each_column_is_as_wide_as_its_widest_cell_and_nothing_stands_behind_the_last() -> None:
    assert aligned([("KIND", "NAME", "STATE"), ("a", "longer", ""), ("longest", "b", "x")]) == [
        "KIND     NAME    STATE",
        "a        longer",
        "longest  b       x",
    ]


def command(listen: str | BadInput) -> StatusCommand:
    def default(environ: Mapping[str, str]) -> Address:
        if isinstance(listen, BadInput):
            raise listen
        return address(listen)

    return StatusCommand(
        manual="reference/relay",
        program="thing",
        document=StatusDocument("thing", "the thing", frozenset({"a"}), longest=100),
        url_of="--listen",
        listen=default,
        table=str,
    )


def test_where_nobody_listens_that_is_one_line_with_the_address_and_the_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("127.0.0.1:1").run([], {}) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("thing status: no answer from the thing at http://127.0.0.1:1: ")
    assert told.err.endswith("; name its --url\n")
    assert told.err.count("\n") == 1
