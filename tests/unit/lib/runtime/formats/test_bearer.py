"""Which requests bring the token that is expected."""

import pytest

from edge_sidecars.runtime.formats.bearer import authorizes, is_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("header", "is_let_in"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        (f"Bearer {TOKEN}0", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer", False),
        ("", False),
        (None, False),
        ("Bearer \udcff", False),
    ],
)
def test_a_header_lets_in_only_with_the_whole_token(header: str | None, is_let_in: bool) -> None:
    assert authorizes(header, TOKEN) == authorizes(header, TOKEN.encode()) == is_let_in


def test_without_an_expected_token_no_request_is_let_in() -> None:
    assert not authorizes("Bearer ", "")
    assert not is_token(None, b"")
    assert not is_token("", "")
