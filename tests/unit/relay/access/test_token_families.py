"""What is asked about with a token that follows another one."""

import base64
import json

import pytest

from relay_sidecar.core.access.authorizer import Attributes
from relay_sidecar.core.access.token_families import (
    MAX_ATTRIBUTES,
    MAX_FAMILIES,
    TokenFamilies,
    TokenFamily,
    family_of,
)

PODS, NODES = (Attributes(verb="list", resource=it) for it in ("pods", "nodes"))
API = "https://kubernetes.default.svc"


def token(number: int, *, pod: str = "a", user: str = "anna", audience: str = API) -> str:
    """As kube-apiserver issues it, but for the signature."""
    claims = {
        "aud": [audience],
        "exp": number,
        "sub": user,
        "kubernetes.io": {"namespace": "ns", "pod": {"name": pod, "uid": pod}},
    }
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{payload}.c2ln"


def test_what_was_asked_before_is_asked_with_the_next() -> None:
    families = TokenFamilies()
    assert families.issued(token(1)) == ()
    assert families.asked(token(1), PODS) == ""
    assert families.issued(token(2)) == (PODS,)
    assert families.is_newest(token(2))
    assert not families.is_newest(token(1))


def test_what_is_asked_with_an_old_one_is_asked_with_the_newest_once() -> None:
    """Also with one that was issued before the relay was started."""
    families = TokenFamilies()
    families.issued(token(2))
    assert families.asked(token(1), PODS) == token(2)
    assert families.asked(token(1), PODS) == ""
    assert families.asked(token(2), NODES) == ""
    assert families.issued(token(3)) == (PODS, NODES)


@pytest.mark.parametrize(
    "other", [{"pod": "b"}, {"user": "berta"}, {"audience": "vault"}], ids=lambda it: next(iter(it))
)
def test_families_learn_nothing_of_each_other(other: dict[str, str]) -> None:
    families = TokenFamilies()
    families.issued(token(1))
    families.issued(token(2, **other))
    families.asked(token(1), PODS)

    assert families.issued(token(3, **other)) == ()
    assert families.issued(token(4)) == (PODS,)


def test_strangers_spend_nothing() -> None:
    families = TokenFamilies()
    families.issued(token(1))
    for number in range(2 * MAX_FAMILIES):
        assert families.asked(token(1, pod=f"stranger-{number}"), PODS) == ""
    families.asked(token(1), PODS)

    assert families.issued(token(2)) == (PODS,)


def test_a_pod_spends_its_own_place_only_and_the_latest_stays() -> None:
    families = TokenFamilies()
    families.issued(token(1))
    for number in range(2 * MAX_ATTRIBUTES):
        families.asked(token(1), Attributes(verb="get", resource="pods", name=str(number)))
    families.asked(token(1), PODS)
    wanted = families.issued(token(2))

    assert len(wanted) == MAX_ATTRIBUTES
    assert wanted[-1] == PODS


def test_only_the_latest_families_are_known() -> None:
    families = TokenFamilies()
    families.issued(token(1))
    families.asked(token(1), PODS)
    for number in range(MAX_FAMILIES):
        families.issued(token(1, pod=f"pod-{number}"))

    assert families.issued(token(2)) == ()


def test_a_token_says_whose_it_is() -> None:
    assert family_of(token(1)) == TokenFamily("anna", "a", (API,))


@pytest.mark.parametrize(
    "text", ["", "opaque", "a.b", "a.b.c", "a.e30.c", "a.bnVsbA.c", "ä.ö.ü", "a.e30.c.d"]
)
def test_what_is_no_pods_token_is_of_no_family(text: str) -> None:
    assert family_of(text) is None
    assert TokenFamilies().issued(text) == ()


def test_what_is_remembered_outlasts_the_process() -> None:
    first, kept = TokenFamilies(), dict[bytes, bytes]()

    def keep() -> None:
        for name, value in first.take_unkept().items():
            if value is None:
                del kept[name]
            else:
                kept[name] = value

    first.issued(token(1))
    first.asked(token(1), PODS)
    keep()
    first.asked(token(1), NODES)
    keep()
    assert first.take_unkept() == {}
    assert kept == first.snapshot()
    assert token(1).encode() not in b"".join((*kept, *kept.values()))
    second = TokenFamilies()
    second.restore({**kept, b"{}": b"[]", next(iter(kept)) + b" ": b"no list"})
    assert second.issued(token(2)) == (PODS, NODES)
    for number in range(MAX_FAMILIES):
        first.issued(token(1, pod=f"pod-{number}"))
    keep()
    assert kept == {}
