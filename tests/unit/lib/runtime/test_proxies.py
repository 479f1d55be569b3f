"""By which proxy a server is reached. The table is what Go's golang.org/x/net/http/httpproxy (0.57)
answered to the same rows."""

import base64

import pytest

from edge_sidecars.runtime.cli.proxies import (
    HttpProxy,
    http_proxy,
    proxy_variables,
)
from edge_sidecars.runtime.cli.values import BadInput

PROXY = "http://proxy.test:3128"
PASSWORD = "hunter2"

_OF_GO = [
    ("https://api.example.com:6443", "", True),
    ("https://localhost:6443", "", False),
    ("https://localhost.example.com", "", True),
    ("https://127.0.0.1:6443", "", False),
    ("https://127.8.9.1:6443", "", False),
    ("https://[::1]:6443", "", False),
    ("https://api.example.com", "*", False),
    ("https://api.example.com", "foo, *", False),
    ("https://api.example.com", "example.com", False),
    ("https://example.com", "example.com", False),
    ("https://example.com", ".example.com", True),
    ("https://api.example.com", ".example.com", False),
    ("https://api.example.com", "*.example.com", False),
    ("https://example.com", "*.example.com", True),
    ("https://badexample.com", "example.com", True),
    ("https://api.example.com:6443", "example.com:6443", False),
    ("https://api.example.com:6443", "example.com:443", True),
    ("https://api.example.com", "example.com:443", False),
    ("http://api.example.com", "example.com:80", False),
    ("https://API.Example.COM", "api.example.com", False),
    ("https://api.example.com", "API.EXAMPLE.com", False),
    ("https://api.example.com", " other.test , api.example.com ", False),
    ("https://10.1.2.3:6443", "10.0.0.0/8", False),
    ("https://11.1.2.3:6443", "10.0.0.0/8", True),
    ("https://10.1.2.3:6443", "10.9.9.9/8", False),
    ("https://10.1.2.3:6443", "10.1.2.3", False),
    ("https://10.1.2.3:6443", "10.1.2.3:6443", False),
    ("https://10.1.2.3:6443", "10.1.2.3:443", True),
    ("https://10.1.2.3:6443", "10.1.2", True),
    ("https://10.1.2.3:6443", ".2.3", True),
    ("https://10.1.2.3:6443", "10.0.0.0/33", True),
    ("https://10.1.2.3:6443", "10.0.0.0/255.0.0.0", True),
    ("https://[2001:db8::1]:6443", "2001:db8::/32", False),
    ("https://[2001:db8::1]:6443", "2001:db8::1", False),
    ("https://[2001:db8::1]:6443", "2001:DB8:0::1", False),
    ("https://[2001:db8::1]:6443", "[2001:db8::1]", True),
    ("https://[2001:db8::1]:6443", "[2001:db8::1]:6443", False),
    ("https://[2001:db8::1]:6443", "[2001:db8::1]:443", True),
    ("https://[::ffff:10.1.2.3]:6443", "10.0.0.0/8", False),
    ("https://10.1.2.3:6443", "::ffff:10.1.2.3", False),
    ("https://api.example.com", "10.0.0.0/8,,:80,.", True),
    ("https://api.example.com", "com", False),
    ("https://api.example.com", "example.com:", False),
    ("https://api.example.com", "api.*.com", True),
    ("https://kubernetes.default.svc", ".svc,.cluster.local", False),
    ("https://kubernetes", ".svc,kubernetes", False),
    ("https://xn--mnchen-3ya.example", "münchen.example", False),
]


@pytest.mark.parametrize(("server", "no_proxy", "is_proxied"), _OF_GO)
def test_no_proxy_excludes_what_go_excludes(server: str, no_proxy: str, is_proxied: bool) -> None:
    told = proxy_variables({"HTTPS_PROXY": PROXY, "HTTP_PROXY": PROXY, "NO_PROXY": no_proxy})
    assert told.proxy_for(server) == (HttpProxy(PROXY) if is_proxied else None)


@pytest.mark.parametrize(
    ("environ", "server", "expected"),
    [
        ({}, "https://api.test", None),
        ({"HTTPS_PROXY": PROXY}, "https://api.test", PROXY),
        ({"HTTPS_PROXY": PROXY}, "http://api.test", None),
        ({"HTTP_PROXY": PROXY}, "http://api.test", PROXY),
        ({"HTTP_PROXY": PROXY}, "https://api.test", None),
        ({"https_proxy": PROXY}, "https://api.test", PROXY),
        ({"http_proxy": PROXY}, "http://api.test", PROXY),
        ({"HTTPS_PROXY": PROXY, "https_proxy": "http://b:1"}, "https://api.test", PROXY),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b:1"}, "https://api.test", "http://b:1"),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "api.test"}, "https://api.test", None),
        ({"ALL_PROXY": PROXY}, "https://api.test", None),
    ],
)
def test_each_scheme_has_its_variable_in_both_cases_of_letters(
    environ: dict[str, str], server: str, expected: str | None
) -> None:
    found = proxy_variables(environ).proxy_for(server)
    assert (None if found is None else found.url) == expected


@pytest.mark.parametrize(
    ("text", "shown", "pair"),
    [
        ("http://p:3128", "http://p:3128", None),
        ("p:3128", "http://p:3128", None),
        ("https://p", "https://p", None),
        ("http://[2001:db8::1]:3128/", "http://[2001:db8::1]:3128", None),
        (f"http://u:{PASSWORD}@p:3128", "http://p:3128", f"u:{PASSWORD}"),
        (f"u:{PASSWORD}@p:3128", "http://p:3128", f"u:{PASSWORD}"),
        ("http://u@p:3128", "http://p:3128", "u:"),
        ("http://u%40d:a%3Ab%2Fc@p:3128", "http://p:3128", "u@d:a:b/c"),
    ],
)
def test_user_and_password_are_a_header_of_the_proxy(
    text: str, shown: str, pair: str | None
) -> None:
    found = http_proxy(text)
    assert found.url == shown
    if pair is None:
        assert found.headers == {}
    else:
        basic = base64.b64encode(pair.encode()).decode()
        assert found.headers == {"Proxy-Authorization": f"Basic {basic}"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (f"socks5://u:{PASSWORD}@p:1080", "HTTPS_PROXY 'socks5://p:1080': only http"),
        (f"socks5h://{PASSWORD}@p", "no socks5"),
        (f"http://u:{PASSWORD}@", "no URL of a proxy"),
        (f"http://u:{PASSWORD}@p:99999", "no URL of a proxy"),
        (f"http://u:{PASSWORD}@p q", "no URL of a proxy"),
        (f"http://[u:{PASSWORD}@p", "no URL"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(value: str, said: str) -> None:
    told = proxy_variables({"HTTPS_PROXY": value})
    with pytest.raises(BadInput) as refused:
        told.proxy_for("https://api.test")
    assert said in str(refused.value)
    assert "put api.test into NO_PROXY" in str(refused.value)
    assert PASSWORD not in str(refused.value)
    assert PASSWORD not in repr(told)


def test_a_proxy_that_would_not_be_asked_is_not_refused() -> None:
    told = proxy_variables({"HTTPS_PROXY": "socks5://p", "NO_PROXY": "api.test"})
    assert told.proxy_for("https://api.test") is None
    assert told.proxy_for("https://127.0.0.1:6443") is None


def test_a_password_is_in_no_text_of_a_proxy() -> None:
    assert PASSWORD not in repr(http_proxy(f"http://u:{PASSWORD}@p:1"))
