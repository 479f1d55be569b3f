"""The cipher of sealed rows answers the published vectors, and as an independent implementation."""

from collections.abc import Callable
from hashlib import shake_128

import pytest
from Crypto.Cipher import AES
from cryptography.hazmat.primitives import cmac
from cryptography.hazmat.primitives.ciphers import algorithms
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_sidecar.journal.sealing.xaes_gcm import NONCE_SIZE, XaesGcm
from tests.examples import examples

# The Galois/Counter Mode of Operation, submitted to NIST, appendix B: cases 13 to 16 (AES-256 with
# a nonce of 96 bits): key, nonce, plaintext, associated data, ciphertext, tag.
_KEY = "feffe9928665731c6d6a8f9467308308" * 2
_PLAIN = (
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
)
_CIPHER = (
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
)
NIST = [
    ("0" * 64, "0" * 24, "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        *("0" * 64, "0" * 24, "0" * 32, ""),
        *("cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"),
    ),
    (_KEY, "cafebabefacedbaddecaf888", _PLAIN, "", _CIPHER, "b094dac5d93471bdec1a502270e3cc6c"),
    (
        *(_KEY, "cafebabefacedbaddecaf888", _PLAIN[:120]),
        *("feedfacedeadbeeffeedfacedeadbeefabaddad2", _CIPHER[:120]),
        "76fc6ece0f4e1768cddf8853bb2d551b",
    ),
]


@pytest.mark.parametrize("vector", NIST, ids=["13", "14", "15", "16"])
def test_the_aes_256_gcm_underneath_answers_the_vectors_given_to_nist(
    vector: tuple[str, ...],
) -> None:
    key, nonce, plaintext, bound_to, ciphertext, tag = map(bytes.fromhex, vector)
    gcm = AES.new(key, AES.MODE_GCM, nonce=nonce, mac_len=16)
    gcm.update(bound_to)
    assert gcm.encrypt_and_digest(plaintext) == (ciphertext, tag)


@pytest.mark.parametrize(
    ("key", "bound_to", "ciphertext"),
    [
        # The two branches of the doubling in GF(2^128).
        (b"\1" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (
            *(b"\3" * 32, b"c2sp.org/XAES-256-GCM"),
            "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d",
        ),
    ],
)
def test_the_vectors_of_the_specification(key: bytes, bound_to: bytes, ciphertext: str) -> None:
    cipher, nonce = XaesGcm(key), b"ABCDEFGHIJKLMNOPQRSTUVWX"
    sealed = cipher.encrypt(b"XAES-256-GCM", nonce=nonce, associated_data=bound_to)
    assert sealed.hex() == ciphertext
    assert cipher.decrypt(sealed, nonce=nonce, associated_data=bound_to) == b"XAES-256-GCM"


def test_the_10000_random_messages_of_the_specification() -> None:
    read, seen = _stream(shake_128().digest(6_000_000)), shake_128()
    for _ in range(10_000):
        key, nonce = read(32), read(NONCE_SIZE)
        plaintext, bound_to = read(read(1)[0]), read(read(1)[0])
        seen.update(XaesGcm(key).encrypt(plaintext, nonce=nonce, associated_data=bound_to))
    assert seen.hexdigest(32) == "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"


def _stream(content: bytes) -> Callable[[int], bytes]:
    position = 0

    def read(count: int) -> bytes:
        nonlocal position
        position += count
        assert position <= len(content)
        return content[position - count : position]

    return read


@settings(max_examples=examples(100), deadline=None)
@given(
    key=st.binary(min_size=32, max_size=32),
    nonce=st.binary(min_size=NONCE_SIZE, max_size=NONCE_SIZE),
    plaintext=st.binary(max_size=300),
    bound_to=st.binary(max_size=100),
)
def test_another_library_composed_by_the_nist_publications_gives_the_same(
    key: bytes, nonce: bytes, plaintext: bytes, bound_to: bytes
) -> None:
    def derive(counter: int) -> bytes:
        mac = cmac.CMAC(algorithms.AES256(key))
        mac.update(counter.to_bytes(2, "big") + b"X\0" + nonce[:12])
        return mac.finalize()

    other = AESGCM(derive(1) + derive(2)).encrypt(nonce[12:], plaintext, bound_to)
    assert XaesGcm(key).encrypt(plaintext, nonce=nonce, associated_data=bound_to) == other
