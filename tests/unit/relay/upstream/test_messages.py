"""Which headers are passed on: RFC 9110, 7.6.1, and without the credentials of the client."""

from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from relay_sidecar.upstream.messages import end_to_end, headers_upstream


def test_headers_between_neighbours_are_not_passed_on() -> None:
    headers = CIMultiDict(
        [
            ("Accept", "a/b"),
            ("CONNECTION", "close, X-Hop"),
            ("Connection", "x-other"),
            ("x-hop", "1"),
            ("X-Other", "1"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "x"),
            ("TE", "trailers"),
            ("Trailer", "X-Sum"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Warning", "one"),
            ("warning", "two"),
        ]
    )
    assert list(end_to_end(headers).items()) == [
        ("Accept", "a/b"),
        ("Warning", "one"),
        ("warning", "two"),
    ]


def test_the_token_that_a_client_sent_to_the_relay_does_not_go_on_by_itself() -> None:
    sent = {"Host": "127.0.0.1:6444", "Authorization": "Bearer of-the-relay", "X-Other": "1"}
    request = make_mocked_request("GET", "/api", headers=sent)
    assert dict(headers_upstream(request, {})) == {"X-Other": "1"}
    ours = {"Authorization": "Bearer of-the-caller"}
    assert dict(headers_upstream(request, ours)) == {"X-Other": "1", **ours}
