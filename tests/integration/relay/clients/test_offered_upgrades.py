"""R9: an upgrade that is only offered leaves a request what it is: Java's HttpClient offers HTTP/2
with each request over http, and is answered from what is kept while the link is cut."""

import os
import shutil
import subprocess
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.integration.relay.place import Kind, Place
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.relay_objects import Contents

OFFER = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAI"}
PATCH = {"Content-Type": "application/merge-patch+json"}
# A program in one file: `java File.java`, JDK 11 and later.
PROGRAM = """
import java.net.URI;
import java.net.http.*;

public class Get {
    public static void main(String[] urls) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (String url : urls) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(url)).build();
            HttpResponse<String> answer =
                client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().contains("\\"kept\\""));
        }
    }
}
"""


@pytest.fixture
def cut_off(control_plane: ControlPlane, contents: Contents) -> Place:
    return Place(Kind.RELAY, control_plane)


def test_r9_an_offer_of_http_2_is_no_tunnel(cut_off: Place, contents: Contents) -> None:
    contents.configmap("kept", k="v")
    path = contents.path("configmaps")
    with cut_off as place:
        place.wait_up()
        for target in (path, f"{path}/kept"):
            assert place.caller().ask(target, headers=OFFER).status == HTTPStatus.OK
        written = place.caller().ask(
            f"{path}/kept", method="PATCH", headers=OFFER | PATCH, body=b'{"data":{"k":"w"}}'
        )
        assert written.status == HTTPStatus.OK
        place.cut()
        for target in (path, f"{path}/kept"):
            reply = place.caller().ask(target, headers=OFFER)
            assert (reply.status, "Age" in reply.headers) == (HTTPStatus.OK, True)


def test_r9_javas_own_client_is_answered_while_cut(
    cut_off: Place, contents: Contents, tmp_path: Path
) -> None:
    if shutil.which("java") is None:
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail("java is missing: make test-deps installs it")
        pytest.skip("java is missing: apt-get install default-jdk-headless")
    contents.configmap("kept", k="v")
    program = tmp_path / "Get.java"
    program.write_text(PROGRAM)
    with cut_off as place:
        place.wait_up()
        path = f"{place.url}{contents.path('configmaps')}"
        for is_cut in (False, True):
            if is_cut:
                place.cut()
            run = ["java", str(program), path, f"{path}/kept"]
            done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
            assert done.stdout.split("\n")[:2] == ["200 true", "200 true"], done.stderr


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
def test_r9_a_namespace_has_no_cluster_scoped_objects(
    cut_off: Place, query: dict[str, str]
) -> None:
    """404 as upstream has it, though a stream of all nodes would find none of that namespace."""
    nowhere = "/api/v1/namespaces/default/nodes"
    with cut_off as place:
        place.wait_up()
        place.caller().get("/api/v1").expect()
        assert place.caller().get("/api/v1/nodes", {"resourceVersion": "0"}).status == 200
        for path in (nowhere, f"{nowhere}/n1"):
            assert place.caller().get(path, query).status == place.cloud.get(path, query).status
        place.cut()
        for path in (nowhere, f"{nowhere}/n1"):
            assert place.caller().get(path, query).status == HTTPStatus.NOT_FOUND
        assert place.caller().get("/api/v1/nodes", query).status == HTTPStatus.OK
