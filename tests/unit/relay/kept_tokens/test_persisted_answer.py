"""What is persisted of a kept answer comes back whole, or not at all."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from relay_sidecar.core.token_request import BoundObjectReference, TokenRequestKey
from relay_sidecar.kept_tokens.kept_answers import KeptAnswer, TokenAnswer
from relay_sidecar.kept_tokens.kept_tokens import decode, encode, record_name
from tests.examples import examples

TEXTS = st.text(max_size=8)
TIMES = st.floats(min_value=0, allow_nan=False)
KEYS = st.builds(
    TokenRequestKey,
    namespace=TEXTS,
    service_account=TEXTS,
    service_account_uid=TEXTS,
    audiences=st.lists(TEXTS, max_size=3).map(tuple),
    expiration_seconds=st.none() | st.integers(-(2**63), 2**63 - 1),
    bound_object_ref=st.none() | st.builds(BoundObjectReference, TEXTS, TEXTS, TEXTS, TEXTS),
    content_type=TEXTS,
)
KEPT = st.builds(
    KeptAnswer,
    answer=st.builds(TokenAnswer, content_type=TEXTS, body=st.binary(max_size=60)),
    asked_at=TIMES,
    ends_at=TIMES | st.just(math.inf),
)


@given(key=KEYS, kept=KEPT)
@settings(max_examples=examples(200))
def test_what_was_persisted_comes_back_byte_for_byte(
    key: TokenRequestKey, kept: KeptAnswer
) -> None:
    assert decode(record_name(key), encode(key, kept)) == (key, kept)


@given(key=KEYS, kept=KEPT, at=st.integers(0), change=st.integers(1, 255))
@settings(max_examples=examples(300))
def test_a_damaged_byte_leaves_no_answer(
    key: TokenRequestKey, kept: KeptAnswer, at: int, change: int
) -> None:
    data = bytearray(encode(key, kept))
    data[at % len(data)] ^= change
    assert decode(record_name(key), bytes(data)) is None


@given(key=KEYS, kept=KEPT, length=st.integers(0))
@settings(max_examples=examples(100))
def test_a_part_of_it_is_no_answer(key: TokenRequestKey, kept: KeptAnswer, length: int) -> None:
    data = encode(key, kept)
    assert decode(record_name(key), data[: length % len(data)]) is None
    assert decode(record_name(key), data + b"\x00") is None


@given(data=st.binary(max_size=100))
@settings(max_examples=examples(100))
def test_any_other_bytes_are_no_answer(data: bytes) -> None:
    assert decode("token-request/00", data) is None


@given(one=KEYS, other=KEYS, kept=KEPT)
@settings(max_examples=examples(200))
def test_each_key_has_a_record_of_its_own(
    one: TokenRequestKey, other: TokenRequestKey, kept: KeptAnswer
) -> None:
    assert (record_name(one) == record_name(other)) == (one == other)
    if one != other:
        assert decode(record_name(other), encode(one, kept)) is None
