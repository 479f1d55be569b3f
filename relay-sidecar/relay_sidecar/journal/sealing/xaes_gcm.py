"""XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM under a key of its own for each message.

From the key and the first half of a random 192-bit nonce, one call of NIST SP 800-108r1's KDF
(counter mode, CMAC-AES256) derives the message's AES-256-GCM key; the other half is the 96-bit
nonce of NIST SP 800-38D. Both halves have to repeat before a (key, nonce) pair does.

Why not AES-256-GCM under the data key itself: with random 96-bit nonces SP 800-38D (8.3) allows a
key 2^32 messages, and one repeated nonce reveals the XOR of two Secrets and lets their reader forge
rows. To stay below, the messages of a key would have to be counted durably, over kill -9, restored
backups and cloned machines, and all rows resealed under another key in time. With 192 random bits
the chance of a collision stays below 2^-32 for 2^80 messages: nothing is counted, and no data key
is replaced because of its age.

Imports pycryptodome: nothing but `sealer` imports this module, and only with `--keep-secrets`.
"""

from Crypto.Cipher import AES

NONCE_SIZE = 24
TAG_SIZE = 16
_BLOCK_SIZE = 16
# x^128 + x^7 + x^2 + x + 1: NIST SP 800-38B, 5.3.
_POLYNOMIAL = 0x87


class XaesGcm:
    """Of one key of 32 bytes, of which no representation shows anything."""

    __slots__ = ("_aes", "_cmac_subkey")

    def __init__(self, key: bytes) -> None:
        # Single blocks: CMAC's.
        self._aes = AES.new(key, AES.MODE_ECB)
        self._cmac_subkey = _double(int.from_bytes(self._aes.encrypt(bytes(_BLOCK_SIZE)), "big"))

    def encrypt(self, plaintext: bytes, *, nonce: bytes, associated_data: bytes) -> bytes:
        """The ciphertext, and the tag after it. `nonce`: 24 random bytes, new for each message."""
        gcm = AES.new(self._derive(nonce), AES.MODE_GCM, nonce=nonce[12:], mac_len=TAG_SIZE)
        gcm.update(associated_data)
        ciphertext, tag = gcm.encrypt_and_digest(plaintext)
        return ciphertext + tag

    def decrypt(self, ciphertext: bytes, *, nonce: bytes, associated_data: bytes) -> bytes | None:
        """The plaintext; None where anything is not as it was in `encrypt`."""
        gcm = AES.new(self._derive(nonce), AES.MODE_GCM, nonce=nonce[12:], mac_len=TAG_SIZE)
        gcm.update(associated_data)
        try:
            return gcm.decrypt_and_verify(ciphertext[:-TAG_SIZE], ciphertext[-TAG_SIZE:])
        except ValueError:
            return None

    def _derive(self, nonce: bytes) -> bytes:
        """The key of the message with this nonce."""
        return self._cmac(b"\x00\x01X\x00" + nonce[:12]) + self._cmac(b"\x00\x02X\x00" + nonce[:12])

    def _cmac(self, block: bytes) -> bytes:
        """Of a message of exactly one block."""
        masked = int.from_bytes(block, "big") ^ self._cmac_subkey
        return self._aes.encrypt(masked.to_bytes(_BLOCK_SIZE, "big"))


def _double(block: int) -> int:
    """In GF(2^128)."""
    doubled = block << 1
    return doubled if doubled < 1 << 128 else (doubled ^ _POLYNOMIAL) & ((1 << 128) - 1)
