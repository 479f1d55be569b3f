"""The directory, and who a certificate belongs to."""

import base64

import pytest

from pool_sidecar.core.members import Directory, common_name, to_der
from pool_sidecar.core.pool_member import MAX_MEMBERS, MemberStatus, PoolMember


def pem(name: str) -> str:
    body = base64.b64encode(b"\x30" + common_name(name).encode()).decode()
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"


def member(name: str, *, pool: str = "hall", certificate: str | None = None) -> PoolMember:
    status = MemberStatus(("10.0.0.1",), (pem(name) if certificate is None else certificate,))
    return PoolMember(name, pool=pool, status=status)


def test_the_peers_are_the_other_members_of_the_own_pool() -> None:
    it = Directory.of("n1", [member("n1"), member("n2"), member("x", pool="yard")])
    assert (it.pool, set(it.peers)) == ("hall", {"n2"})


@pytest.mark.parametrize("members", [[], [member("n2")], [member("n1", pool="")]])
def test_who_is_in_no_pool_has_no_peers(members: list[PoolMember]) -> None:
    it = Directory.of("n1", [*members, member("n3")])
    assert (it.pool, dict(it.peers)) == ("", {})


def test_a_certificate_tells_whose_it_is() -> None:
    it = Directory.of("n1", [member("n1"), member("n2"), member("n3")])
    found = it.owner_of(to_der(pem("n3")))
    assert found is not None
    assert found.name == "n3"
    assert it.owner_of(to_der(pem("stranger"))) is None
    assert it.owner_of(to_der(pem("n1"))) is None, "the own one is no peer's"


def test_who_publishes_the_certificate_of_another_one_neither_is_it_nor_takes_it() -> None:
    it = Directory.of("n1", [member("n1"), member("n2", certificate=pem("n3")), member("n3")])
    found = it.owner_of(to_der(pem("n3")))
    assert found is not None
    assert found.name == "n3"
    assert it.peers["n2"].certificates == ()


def test_a_certificate_that_names_two_nodes_is_nobody_s() -> None:
    oid = b"\x06\x03\x55\x04\x03"
    names = [oid + common_name(it).encode() for it in ("n2", "n3")]
    for count, expected in ((1, 1), (2, 0)):
        der = b"".join(names[:count] * 2)  # Subject and issuer.
        body = base64.b64encode(der).decode()
        text = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
        it = Directory.of("n1", [member("n1"), member("n2", certificate=text)])
        assert len(it.peers["n2"].certificates) == expected


def test_there_are_64_members_at_most_and_the_same_ones_for_all() -> None:
    names = [f"n{number:03}" for number in range(MAX_MEMBERS + 1)]
    members = [member(it) for it in names]
    assert len(Directory.of(names[0], members).peers) == MAX_MEMBERS - 1
    assert Directory.of(names[-1], members).peers == {}
    assert names[-1] not in Directory.of(names[3], reversed(members)).peers


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----", pem("n").replace("M", "*")])
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        to_der(text)
