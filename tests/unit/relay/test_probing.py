"""What a probe asks: the API server itself, or only whether it is there."""

import pytest

from relay_sidecar.core.probing import BRIEF_IN_A_ROW, Probing

BARE = {"Content-Length": "0", "Date": "Sun, 22 Nov 2026 08:16:13 GMT"}
LIVEZ = {"Audit-Id": "b", "Content-Length": "2"}


def known() -> Probing:
    """Of an API server that has answered."""
    probing = Probing(may_be_brief=True)
    assert not probing.is_brief(in_doubt=True)
    probing.answered(LIVEZ)
    return probing


def test_the_api_server_itself_is_asked_first_and_again_after_so_many_brief_probes() -> None:
    probing = known()
    for _ in range(BRIEF_IN_A_ROW):
        assert probing.is_brief(in_doubt=False)
        assert probing.briefly_answered(200, BARE)
    assert not probing.is_brief(in_doubt=False)
    probing.answered(LIVEZ)
    assert probing.is_brief(in_doubt=False)


def test_in_doubt_the_api_server_itself_is_asked_until_it_has_answered() -> None:
    probing = known()
    assert not probing.is_brief(in_doubt=True)
    assert not probing.is_brief(in_doubt=False)
    probing.answered(LIVEZ)
    assert probing.is_brief(in_doubt=False)


@pytest.mark.parametrize(
    ("status", "headers"),
    [(400, BARE), (404, BARE), (503, BARE), (200, BARE | {"Server": "x"}), (200, {"Via": "1.1 x"})],
)
def test_a_brief_answer_of_somebody_else_proves_nothing_and_is_not_asked_for_again(
    status: int, headers: dict[str, str]
) -> None:
    probing = known()
    assert probing.is_brief(in_doubt=False)
    assert not probing.briefly_answered(status, headers)
    probing.answered(LIVEZ)
    assert not probing.is_brief(in_doubt=False)


@pytest.mark.parametrize("header", ["Server", "Via"])
def test_behind_a_gateway_that_names_itself_no_probe_is_brief(header: str) -> None:
    probing = Probing(may_be_brief=True)
    probing.answered(LIVEZ | {header: "x"})
    assert not probing.is_brief(in_doubt=False)


def test_where_none_may_be_no_probe_is_brief() -> None:
    probing = Probing(may_be_brief=False)
    probing.answered(LIVEZ)
    assert not probing.is_brief(in_doubt=False)
