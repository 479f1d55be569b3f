"""What a probe asks: the API server itself, or only whether it is there."""

import pytest

from relay_sidecar.core.link import BRIEF_IN_A_ROW, ProbeReply, ProbeRequests

NAMES = frozenset({"kubernetes", "kubernetes.default.svc", "node-1"})
BARE = {"Content-Length": "0", "Date": "Sun, 22 Nov 2026 08:16:13 GMT"}
LIVEZ = ProbeReply(200, {"Audit-Id": "b", "Content-Length": "2"}, NAMES)
BRIEF = ProbeReply(200, BARE, NAMES)


def known() -> ProbeRequests:
    """Of an API server that has answered."""
    probing = ProbeRequests(may_be_brief=True)
    assert not probing.is_brief(in_doubt=True)
    probing.answered(LIVEZ)
    return probing


def test_the_api_server_itself_is_asked_first_and_again_after_so_many_brief_probes() -> None:
    probing = known()
    for _ in range(BRIEF_IN_A_ROW):
        assert probing.is_brief(in_doubt=False)
        assert probing.briefly_answered(BRIEF)
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
    "reply",
    [
        ProbeReply(400, BARE, NAMES),
        ProbeReply(404, BARE, NAMES),
        ProbeReply(503, BARE, NAMES),
        ProbeReply(200, BARE | {"Server": "x"}, NAMES),
        ProbeReply(200, {"Via": "1.1 x"}, NAMES),
        ProbeReply(200, BARE, frozenset({"gateway.example"})),
        None,
    ],
    ids=["400", "404", "503", "Server", "Via", "another certificate", "no answer"],
)
def test_a_brief_question_that_is_not_answered_well_is_asked_again_after_as_many_others(
    reply: ProbeReply | None,
) -> None:
    probing = known()
    assert probing.is_brief(in_doubt=False)
    assert reply is None or not probing.briefly_answered(reply)
    for _ in range(BRIEF_IN_A_ROW):
        probing.answered(LIVEZ)
        assert not probing.is_brief(in_doubt=False)
    probing.answered(LIVEZ)
    assert probing.is_brief(in_doubt=False)


@pytest.mark.parametrize(
    "reply",
    [
        ProbeReply(200, {"Server": "x"}, NAMES),
        ProbeReply(200, {"Via": "1.1 x"}, NAMES),
        ProbeReply(200, BARE, frozenset()),
        ProbeReply(200, BARE, frozenset({"kubernetes.default.svc.example"})),
    ],
    ids=["Server", "Via", "no certificate", "another certificate"],
)
def test_behind_what_may_be_a_gateway_no_probe_is_brief(reply: ProbeReply) -> None:
    probing = ProbeRequests(may_be_brief=True)
    for _ in range(2 * BRIEF_IN_A_ROW):
        probing.answered(reply)
        assert not probing.is_brief(in_doubt=False)


def test_where_none_may_be_no_probe_is_brief() -> None:
    probing = ProbeRequests(may_be_brief=False)
    probing.answered(LIVEZ)
    assert not probing.is_brief(in_doubt=False)
