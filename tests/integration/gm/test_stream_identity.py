"""Who may speak for a node, and how GM's health is told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from edge_sidecars.sedna_api.core.messages import Hello, SnapshotEnd
from edge_sidecars.sedna_api.stream_codec import SERVICE, decode_to_node, encode_from_node
from gm.hub.credentials import ServerTls
from gm.hub.ports import ReviewUnavailable
from gm.hub.stream_server import StreamServer
from lc.stream.stream_link import ClientTls
from tests.integration.gm.streams import (
    LOOPBACK,
    Cloud,
    dial,
    document,
    eventually,
    never,
    play,
    running_gm,
    running_lc,
)
from tools.harness.controlplane.access.certificates import Authority, CertificateFiles


@dataclass(frozen=True)
class Certificates:
    """GM's, and how to make an LC's."""

    authority: Authority
    server: CertificateFiles

    def gm(self, *, is_mutual: bool = True) -> ServerTls:
        ca = self.authority.bundle if is_mutual else None
        return ServerTls(self.server.certificate, self.server.key, ca)

    def lc(self, user: str) -> ClientTls:
        name = user.replace(":", "-")
        files = self.authority.issue_client(name, user=user, group="system:nodes")
        return ClientTls(self.authority.bundle, files.certificate, files.key)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    authority = Authority(tmp_path_factory.mktemp("ca"), "streams")
    return Certificates(authority, authority.issue_server("gm", hosts=[LOOPBACK]))


class Reviewer:
    """Knows some tokens."""

    def __init__(self, nodes: dict[str, str]) -> None:
        self.nodes = nodes
        self.is_away = False

    async def node_of(self, token: str) -> str | None:
        if self.is_away:
            raise ReviewUnavailable("the API server is away")
        return self.nodes.get(token)


@pytest.mark.parametrize("user", ["edge-a", "system:node:edge-a"])
def test_a_client_certificate_proves_the_node(
    tmp_path: Path, certificates: Certificates, user: str
) -> None:
    async def scene() -> None:
        cloud = Cloud()
        cloud.put("edge-a", document("d1", 1))
        async with (
            running_gm(cloud, tls=certificates.gm()) as gm,
            running_lc(tmp_path, gm.address, tls=certificates.lc(user)) as lc,
        ):
            await eventually(lambda: lc.is_up)
            assert lc.names() == ["d1"]

    play(scene())


@pytest.mark.parametrize("user", ["edge-b", "system:node:edge-b", "system:node:"])
def test_a_foreign_node_is_refused_under_mutual_tls(
    tmp_path: Path, certificates: Certificates, user: str
) -> None:
    async def scene() -> None:
        async with (
            running_gm(Cloud(), tls=certificates.gm()) as gm,
            running_lc(tmp_path, gm.address, tls=certificates.lc(user)) as lc,
        ):
            await eventually(lambda: "PERMISSION_DENIED" in lc.link.status().problem)
            await never(gm.hub.connected, within=0.5)

    play(scene())


@pytest.mark.parametrize("brings", ["nothing", "another authority's"])
def test_who_has_no_certificate_of_ours_is_not_heard(
    tmp_path: Path, certificates: Certificates, brings: str
) -> None:
    async def scene() -> None:
        tls = ClientTls(certificates.authority.bundle)
        if brings != "nothing":
            (tmp_path / "other").mkdir()
            files = Authority(tmp_path / "other", "other").issue_client(
                "lc", user="edge-a", group="system:nodes"
            )
            tls = ClientTls(certificates.authority.bundle, files.certificate, files.key)
        async with (
            running_gm(Cloud(), tls=certificates.gm()) as gm,
            running_lc(tmp_path, gm.address, tls=tls) as lc,
        ):
            await eventually(lambda: "UNAVAILABLE" in lc.link.status().problem)
            await never(gm.hub.connected, within=0.5)

    play(scene())


def test_an_lc_does_not_speak_with_a_gm_of_another_authority(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def scene() -> None:
        (tmp_path / "other").mkdir()
        tls = ClientTls(Authority(tmp_path / "other", "other").bundle)
        async with (
            running_gm(Cloud(), tls=certificates.gm(is_mutual=False)) as gm,
            running_lc(tmp_path, gm.address, tls=tls) as lc,
        ):
            await eventually(lambda: "UNAVAILABLE" in lc.link.status().problem)
            assert not gm.hub.connected()

    play(scene())


def test_a_missing_file_is_told_and_tried_again(tmp_path: Path, certificates: Certificates) -> None:
    async def scene() -> None:
        late = tmp_path / "late.crt"
        async with (
            running_gm(Cloud(), tls=certificates.gm(is_mutual=False)) as gm,
            running_lc(tmp_path, gm.address, tls=ClientTls(late)) as lc,
        ):
            await eventually(lambda: "late.crt" in lc.link.status().problem)
            late.write_bytes(certificates.authority.bundle.read_bytes())
            await eventually(lambda: lc.is_up)

    play(scene())


def test_a_renewed_certificate_serves_the_next_connection(tmp_path: Path) -> None:
    async def scene() -> None:
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
        old, new = Authority(tmp_path / "old", "old"), Authority(tmp_path / "new", "new")
        serving = old.issue_server("gm", hosts=[LOOPBACK])
        async with running_gm(Cloud(), tls=ServerTls(serving.certificate, serving.key)) as gm:
            renewed = new.issue_server("gm", hosts=[LOOPBACK])
            serving.certificate.write_bytes(renewed.certificate.read_bytes())
            serving.key.write_bytes(renewed.key.read_bytes())
            async with running_lc(tmp_path, gm.address, tls=ClientTls(new.bundle)) as lc:
                await eventually(lambda: lc.is_up)

    play(scene())


def test_a_reviewed_token_proves_the_node(tmp_path: Path, certificates: Certificates) -> None:
    async def scene() -> None:
        reviewer = Reviewer({"good": "edge-a", "foreign": "edge-b"})
        token, tls = tmp_path / "token", ClientTls(certificates.authority.bundle)
        token.write_text("foreign\n")
        gm_tls = certificates.gm(is_mutual=False)
        async with running_gm(Cloud(), tls=gm_tls, reviewer=reviewer) as gm:
            async with running_lc(tmp_path, gm.address, tls=tls, token_file=token) as lc:
                await eventually(lambda: "edge-b" in lc.link.status().problem)
                token.write_text("unknown\n")
                await eventually(lambda: "node ''" in lc.link.status().problem)
                reviewer.is_away = True
                await eventually(lambda: "UNAVAILABLE" in lc.link.status().problem)
                assert not gm.hub.connected()
                reviewer.is_away = False
                token.write_text("good\n")
                await eventually(lambda: lc.is_up)
            # Without any.
            async with running_lc(tmp_path, gm.address, tls=tls) as lc:
                await eventually(lambda: "PERMISSION_DENIED" in lc.link.status().problem)

    play(scene())


def test_without_credentials_only_lcs_of_this_machine_are_served(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running_gm(Cloud()) as gm:
            for trusts in (False, True):
                server = StreamServer(gm.hub, trust_any_lc=trusts)
                # As seen from the server, a Unix socket is an address that is not loopback's.
                address = f"unix:{tmp_path}/gm-{trusts}.sock"
                await server.start(address)
                try:
                    async with running_lc(tmp_path / str(trusts), address) as lc:
                        if trusts:
                            await eventually(lambda: lc.is_up)
                        else:
                            await eventually(lambda: "--trust-any-lc" in lc.link.status().problem)
                            assert not gm.hub.connected()
                finally:
                    await server.stop()

    play(scene())


def test_health_says_what_a_stream_would_meet() -> None:
    async def scene() -> None:
        cloud = Cloud()
        async with running_gm(cloud) as gm, grpc.aio.insecure_channel(gm.address) as channel:
            check: Any = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=HealthCheckRequest.SerializeToString,
                response_deserializer=HealthCheckResponse.FromString,
            )
            watching: Any = channel.unary_stream(
                "/grpc.health.v1.Health/Watch",
                request_serializer=HealthCheckRequest.SerializeToString,
                response_deserializer=HealthCheckResponse.FromString,
            )
            watch = watching(HealthCheckRequest(service=SERVICE))
            serving = HealthCheckResponse.SERVING
            assert (await check(HealthCheckRequest())).status == serving
            assert (await check(HealthCheckRequest(service=SERVICE))).status == serving
            assert (await watch.read()).status == serving
            gm.is_leader = False
            assert (await check(HealthCheckRequest())).status == HealthCheckResponse.NOT_SERVING
            assert (await watch.read()).status == HealthCheckResponse.NOT_SERVING
            stream = dial(channel)
            assert await stream.code() is grpc.StatusCode.UNAVAILABLE
            with pytest.raises(grpc.aio.AioRpcError) as unknown:
                await check(HealthCheckRequest(service="other"))
            assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
            watch.cancel()

    play(scene())


def test_in_the_clear_the_hello_is_believed() -> None:
    async def scene() -> None:
        async with running_gm(Cloud()) as gm, grpc.aio.insecure_channel(gm.address) as channel:
            call = dial(channel)
            await call.write(encode_from_node(Hello("any-node", "store", {})))
            assert decode_to_node(await call.read()) == SnapshotEnd()
            assert gm.served() == ["any-node"]
            call.cancel()

    play(scene())
