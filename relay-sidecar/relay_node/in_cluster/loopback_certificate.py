"""A certificate for loopback with its key, which in-cluster clients of a pod trust and no one else.

Guarantees: it signs nothing but itself (CA:FALSE), names loopback and the API server's names only,
and is valid from 2000 on, whatever the clock of a node without a network says.

Made by the libcrypto that Python's own `ssl` is linked to, by ctypes: the image of pods has no
package `cryptography`, which is 20 MB, for one certificate in a pod's life.
"""

import _ssl
import ctypes
import secrets
from collections.abc import Callable, Iterable
from ctypes import c_char_p, c_int, c_long, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Final

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.file_state import write_whole

# Those of the node's CA, relay_node/installer/authority.py.
NAMES: Final = ("kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost")
ADDRESSES: Final = ("127.0.0.1", "::1")
VALID_FROM: Final = b"20000101000000Z"
# RFC 5280 4.1.2.5: no certain end. The pod's end is this key's.
VALID_UNTIL: Final = b"99991231235959Z"
# openssl/x509.h: the version is counted from 0; openssl/asn1.h.
_X509_V3: Final = 2
_MBSTRING_ASC: Final = 0x1001
# More than an X509V3_CTX, which is 64 bytes on 64 bits.
_CONTEXT_SIZE: Final = 256
_MAX_PEM: Final = 1 << 16
_END: Final = b"-----END CERTIFICATE-----\n"

# x509v3_config(5); the identifiers are of the key, hence in this order.
_EXTENSIONS: Final = (
    (b"basicConstraints", b"critical,CA:FALSE"),
    (b"keyUsage", b"critical,digitalSignature"),
    (b"extendedKeyUsage", b"serverAuth"),
    (b"subjectKeyIdentifier", b"hash"),
    (b"authorityKeyIdentifier", b"keyid:always"),
    (
        b"subjectAltName",
        ",".join([*(f"DNS:{it}" for it in NAMES), *(f"IP:{it}" for it in ADDRESSES)]).encode(),
    ),
)
_FUNCTIONS: Final[dict[str, tuple[type | None, tuple[type, ...]]]] = {
    "EVP_PKEY_CTX_new_from_name": (c_void_p, (c_void_p, c_char_p, c_char_p)),
    "EVP_PKEY_keygen_init": (c_int, (c_void_p,)),
    "EVP_PKEY_CTX_set_group_name": (c_int, (c_void_p, c_char_p)),
    "EVP_PKEY_generate": (c_int, (c_void_p, c_void_p)),
    "EVP_PKEY_CTX_free": (None, (c_void_p,)),
    "EVP_PKEY_free": (None, (c_void_p,)),
    "EVP_sha256": (c_void_p, ()),
    "X509_new": (c_void_p, ()),
    "X509_free": (None, (c_void_p,)),
    "X509_set_version": (c_int, (c_void_p, c_long)),
    "X509_get_serialNumber": (c_void_p, (c_void_p,)),
    # Not ASN1_INTEGER_set: a long of 32 bits would cut the serial, to a negative one half the time,
    # which Go refuses.
    "ASN1_INTEGER_set_uint64": (c_int, (c_void_p, c_uint64)),
    "X509_getm_notBefore": (c_void_p, (c_void_p,)),
    "X509_getm_notAfter": (c_void_p, (c_void_p,)),
    "ASN1_TIME_set_string": (c_int, (c_void_p, c_char_p)),
    "X509_get_subject_name": (c_void_p, (c_void_p,)),
    "X509_NAME_add_entry_by_txt": (
        c_int,
        (c_void_p, c_char_p, c_int, c_char_p, c_int, c_int, c_int),
    ),
    "X509_set_issuer_name": (c_int, (c_void_p, c_void_p)),
    "X509_set_pubkey": (c_int, (c_void_p, c_void_p)),
    "OBJ_txt2nid": (c_int, (c_char_p,)),
    "X509V3_set_ctx": (None, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int)),
    "X509V3_EXT_conf_nid": (c_void_p, (c_void_p, c_void_p, c_int, c_char_p)),
    "X509_EXTENSION_free": (None, (c_void_p,)),
    "X509_add_ext": (c_int, (c_void_p, c_void_p, c_int)),
    "X509_sign": (c_int, (c_void_p, c_void_p, c_void_p)),
    "BIO_s_mem": (c_void_p, ()),
    "BIO_new": (c_void_p, (c_void_p,)),
    "BIO_free": (c_int, (c_void_p,)),
    "BIO_read_ex": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p)),
    "PEM_write_bio_X509": (c_int, (c_void_p, c_void_p)),
    "PEM_write_bio_PKCS8PrivateKey": (
        c_int,
        (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p),
    ),
}


class NoLibcrypto(Exception):
    """This Python's `ssl` is not linked to an OpenSSL 3 that can be called, or that failed."""


def ensure_loopback_serving(serving: Path) -> Path:
    """Makes the file with certificate and key, readable by its owner only, where it is not there;
    returns that with the certificate alone, beside it. Raises `BadInput` naming the file."""
    if not serving.name or serving.suffix == ".crt":
        raise BadInput(
            f"--serving {serving}: the certificate goes beside it with the suffix .crt; name a "
            "file like serving.pem"
        )
    certificate_file = serving.with_suffix(".crt")
    try:
        if not serving.exists():
            certificate, key = loopback_certificate(1 + secrets.randbits(62))
            write_whole(serving, certificate + key, mode=0o600)
        certificate, end, _ = serving.read_bytes().partition(_END)
        write_whole(certificate_file, certificate + end, mode=0o644)
    except OSError as error:
        raise BadInput(
            f"--serving {serving}: {error.strerror or error}; name a file in an empty directory "
            "that can be written, like an emptyDir"
        ) from error
    except NoLibcrypto as error:
        raise BadInput(f"--serving {serving}: no certificate can be made: {error}") from error
    return certificate_file


def loopback_certificate(serial: int) -> tuple[bytes, bytes]:
    """PEM: the certificate, and its key (P-256). `serial`: positive, below 2^63, another for each.
    Raises `NoLibcrypto`."""
    call = _Libcrypto()
    key = call.new_key()
    certificate = call.made("X509_new")
    try:
        _fill(call, certificate, key, serial)
        return (
            call.pem(lambda bio: call.made("PEM_write_bio_X509", bio, certificate)),
            call.pem(
                lambda bio: call.made(
                    "PEM_write_bio_PKCS8PrivateKey", bio, key, None, None, 0, None, None
                )
            ),
        )
    finally:
        call("X509_free", certificate)
        call("EVP_PKEY_free", key)


class _Libcrypto:
    """Calls by name; `made` also checks that the answer is neither NULL nor 0."""

    def __init__(self) -> None:
        try:
            # dlsym(3) looks in what the extension is linked to.
            library = ctypes.CDLL(_ssl.__file__)
            self._functions = {name: library[name] for name in _FUNCTIONS}
        except (AttributeError, OSError) as error:
            raise NoLibcrypto(str(error)) from error
        for name, (result, arguments) in _FUNCTIONS.items():
            self._functions[name].restype = result
            self._functions[name].argtypes = arguments

    def __call__(self, name: str, *arguments: object) -> int:
        answer: int = self._functions[name](*arguments)
        return answer

    def made(self, name: str, *arguments: object) -> int:
        answer = self(name, *arguments)
        if answer is None or answer <= 0:
            raise NoLibcrypto(f"{name} failed")
        return answer

    def new_key(self) -> int:
        context = self.made("EVP_PKEY_CTX_new_from_name", None, b"EC", None)
        try:
            self.made("EVP_PKEY_keygen_init", context)
            self.made("EVP_PKEY_CTX_set_group_name", context, b"P-256")
            key = c_void_p()
            self.made("EVP_PKEY_generate", context, ctypes.byref(key))
        finally:
            self("EVP_PKEY_CTX_free", context)
        if not key.value:
            raise NoLibcrypto("EVP_PKEY_generate made no key")
        return key.value

    def pem(self, write: Callable[[int], int]) -> bytes:
        bio = self.made("BIO_new", self("BIO_s_mem"))
        try:
            write(bio)
            buffer = ctypes.create_string_buffer(_MAX_PEM)
            size = c_size_t()
            self.made("BIO_read_ex", bio, buffer, _MAX_PEM, ctypes.byref(size))
            return buffer.raw[: size.value]
        finally:
            self("BIO_free", bio)


def _fill(call: _Libcrypto, certificate: int, key: int, serial: int) -> None:
    call.made("X509_set_version", certificate, _X509_V3)
    call.made("ASN1_INTEGER_set_uint64", call("X509_get_serialNumber", certificate), serial)
    for end, moment in (("notBefore", VALID_FROM), ("notAfter", VALID_UNTIL)):
        call.made("ASN1_TIME_set_string", call(f"X509_getm_{end}", certificate), moment)
    name = call("X509_get_subject_name", certificate)
    common = b"relay-sidecar of this pod"
    call.made("X509_NAME_add_entry_by_txt", name, b"CN", _MBSTRING_ASC, common, -1, -1, 0)
    call.made("X509_set_issuer_name", certificate, name)
    call.made("X509_set_pubkey", certificate, key)
    _extend(call, certificate, _EXTENSIONS)
    call.made("X509_sign", certificate, key, call("EVP_sha256"))


def _extend(call: _Libcrypto, certificate: int, values: Iterable[tuple[bytes, bytes]]) -> None:
    context = ctypes.create_string_buffer(_CONTEXT_SIZE)
    call("X509V3_set_ctx", context, certificate, certificate, None, None, 0)
    for name, value in values:
        number = call("OBJ_txt2nid", name)
        extension = call.made("X509V3_EXT_conf_nid", None, context, number, value)
        try:
            call.made("X509_add_ext", certificate, extension, -1)
        finally:
            call("X509_EXTENSION_free", extension)
