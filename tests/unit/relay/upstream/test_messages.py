"""Which headers are passed on: RFC 9110, 7.6.1."""

from multidict import CIMultiDict

from relay_sidecar.upstream.messages import end_to_end


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
