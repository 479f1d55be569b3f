"""R1, R2, R4, R8 over a WebSocket: a watch there is a watch like any other, in each state of the
link, and what its client sends does no harm."""

import base64
import json
import os
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

import pytest
import websocket

from tests.integration.relay.place import PATIENT, Kind, Place, played
from tests.integration.relay.reads.test_slow_reader import COUNT, SIZE, drain, wait_watchers
from tests.integration.relay.reads.websocket_watch import WebSocketWatching
from tests.integration.relay.upstream import of_relays, verbs
from tools.harness.controlplane.cluster import ControlPlane
from tools.harness.pods.wire.caller import Parameters, Watching
from tools.harness.relay_objects import Contents

LONG: Parameters = {"timeoutSeconds": 120}
LISTED: Parameters = {
    **LONG,
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
# Plain HTTP with --access own; TLS, and a second relay; TLS with --access caller.
SPOKEN = played(Kind.RELAY, Kind.BEHIND_RELAY, Kind.FOR_CALLERS)
GONE, NORMAL, PROTOCOL_ERROR, TOO_BIG = 410, 1000, 1002, 1009
spoken = pytest.mark.parametrize("kind", SPOKEN)


@spoken
@pytest.mark.parametrize("black_hole", [False, True], ids=["refused", "black-hole"])
def test_r4_a_watch_over_a_websocket_goes_on_while_cut(
    control_plane: ControlPlane, contents: Contents, kind: Kind, black_hole: bool
) -> None:
    contents.configmap("before")
    path = contents.path("configmaps")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, LISTED) as watching:
            end = watching.wait_initial_end()
            contents.configmap("told")
            watching.wait_told(("ADDED", "before"), ("ADDED", "told"))
            place.cut(black_hole=black_hole)
            with WebSocketWatching(place.caller(), path, LISTED) as late:
                late.wait_initial_end()
                assert {it.name for it in late.events("ADDED")} == {"before", "told"}
                # Behind another relay it may not be known yet that this one is cut off.
                assert "age" in late.handshake or kind is Kind.BEHIND_RELAY
            contents.configmap("meanwhile")
            contents.label("configmaps", "told", x="1")
            assert watching.is_open
            assert len(watching.told()) == 2
            place.heal()
            watching.wait_told(
                ("ADDED", "before"),
                ("ADDED", "told"),
                ("ADDED", "meanwhile"),
                ("MODIFIED", "told"),
            )
            versions = [it.version for it in watching.events()[1:]]
            assert versions == sorted(versions)
            assert versions[0] > end.version
            assert watching.is_open


@spoken
def test_r2_watches_over_websockets_and_others_share_one_stream(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    """Each in its framing, the same events."""
    path = contents.path("configmaps")
    with Place(kind, control_plane, flags=[PATIENT]) as place:
        place.wait_up()
        caller = place.caller()
        asked: Parameters = {**LONG, "resourceVersion": caller.get(path).version}
        many: list[Watching] = [WebSocketWatching(caller, path, asked) for _ in range(30)]
        many += [caller.watch(path, asked) for _ in range(10)]
        try:
            wait_watchers(place, 40)
            # Some fit in 7 bits, some need 16 or 64 for their length.
            for size in (0, 1000, 70_000):
                contents.configmap(f"s{size}", filler="x" * size)
            for each in many:
                each.wait_told(("ADDED", "s0"), ("ADDED", "s1000"), ("ADDED", "s70000"))
            objects = [it.object for it in many[-1].seen]
            assert all([it.object for it in each.seen] == objects for each in many)
            [stream] = [it for it in place.relay.status()["streams"] if it["watchers"]]
            assert (stream["resource"], stream["watchers"]) == ("configmaps.v1.", 40)
            relayed = of_relays(control_plane, contents.namespace)
            assert verbs(relayed).count("watch") == 1
        finally:
            for each in many:
                each.__exit__(None, None, None)
        wait_watchers(place, 0)


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"resourceVersion": "0"},
        LISTED,
        {"labelSelector": "app=web"},
        {"fieldSelector": "metadata.name=two"},
        {**LISTED, "labelSelector": "app in (web,db)"},
    ],
    ids=str,
)
@pytest.mark.parametrize("accept", ["application/json", "metadata"])
def test_r1_messages_are_those_of_the_api_server(
    control_plane: ControlPlane, contents: Contents, query: Parameters, accept: str
) -> None:
    contents.configmap("one", labels={"app": "web"})
    contents.configmap("two", labels={"app": "db"})
    path = contents.path("configmaps")
    if accept == "metadata":
        accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    found = []
    for kind in (Kind.DIRECT, Kind.RELAY):
        with Place(kind, control_plane, flags=[PATIENT]) as place:
            place.wait_up()
            asked = {**query, "timeoutSeconds": 1}
            with WebSocketWatching(
                place.caller(), path, asked, headers={"Accept": accept}
            ) as watching:
                watching.wait_ended()
                assert watching.close_code == NORMAL
                messages = sorted(map(without_versions, watching.messages))
                found.append((watching.protocol, messages))
    assert found[0] == found[1]


def without_versions(message: str) -> str:
    """A bookmark's is that of its moment; what is whole is left as it is."""
    event = json.loads(message)
    if event["type"] != "BOOKMARK":
        return message
    del event["object"]["metadata"]["resourceVersion"]
    return json.dumps(event)


@spoken
def test_r5_a_watch_over_a_websocket_continues_after_a_restart_while_cut(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    contents.configmap("first")
    path = contents.path("configmaps")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, LISTED) as watching:
            watching.wait_initial_end()
            contents.configmap("second")
            watching.wait_told(("ADDED", "first"), ("ADDED", "second"))
            first, second = (it.version for it in watching.events())
        place.cut()
        place.relay.kill()
        place.relay.start()
        # One is at the cursor, one has missed what nobody can tell it any more.
        at: Parameters = {**LONG, "resourceVersion": second}
        before: Parameters = {**LONG, "resourceVersion": first - 1}
        with WebSocketWatching(place.caller(), path, at) as current:
            with WebSocketWatching(place.caller(), path, before) as late:
                late.wait_ended()
                [error] = late.seen
                assert (error.type, error.object["code"], late.close_code) == (
                    "ERROR",
                    GONE,
                    NORMAL,
                )
            place.heal()
            contents.configmap("third")
            current.wait_told(("ADDED", "third"))


@pytest.mark.long
def test_r1_a_watch_over_a_websocket_ends_with_410_with_its_stream(
    control_plane: ControlPlane, contents: Contents
) -> None:
    """Where upstream forced a new list, all watchers of the stream list anew."""
    contents.configmap("one")
    path = contents.path("configmaps")
    with ControlPlane() as own:
        made = Contents(own, own.create_namespace())
        made.configmap("one")
        path = made.path("configmaps")
        with Place(Kind.RELAY, own) as place:
            place.wait_up()
            with WebSocketWatching(place.caller(), path, LISTED) as watching:
                watching.wait_initial_end()
                place.cut()
                for number in range(5):
                    made.label("configmaps", "one", n=str(number))
                own.stop_apiserver()
                own.compact()
                own.start_apiserver()
                place.heal()
                watching.wait_ended(timeout=60)
                assert watching.seen[-1].type == "ERROR"
                assert watching.seen[-1].object["code"] == GONE
                assert watching.close_code == NORMAL


@spoken
def test_r1_pings_are_answered_and_a_client_that_closes_is_gone_at_once(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    path = contents.path("configmaps")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, LISTED) as watching:
            watching.wait_initial_end()
            watching.ping(b"are you there")
            # What it says is nobody's concern.
            watching.say("hello")
            watching.say(b"\x00" * 1000)
            watching.wait_for(lambda it: bool(watching.pongs), what="the pong")
            assert watching.pongs == [b"are you there"]
            contents.configmap("told")
            watching.wait_told(("ADDED", "told"))
            watching.close()
            watching.wait_ended()
            assert watching.close_code == NORMAL
            # Its connection is still there.
            wait_watchers(place, 0)


GARBAGE = {
    "unmasked": (b"\x81\x02hi", None),
    "reserved opcode": (b"\x83\x80\x00\x00\x00\x00", PROTOCOL_ERROR),
    "reserved bits": (b"\xf1\x80\x00\x00\x00\x00", PROTOCOL_ERROR),
    "long ping": (b"\x89\xfe\x01\x00" + bytes(260), PROTOCOL_ERROR),
    "a message of 1 GB": (b"\x82\xff\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00", TOO_BIG),
    "no end of fragments": (b"\x01\xfe\x40\x00\x00\x00\x00\x00" + bytes(0x4000), None),
    "random": (os.urandom(4096), None),
    "HTTP": (b"GET /api HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100, None),
}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("kind", played(Kind.RELAY, Kind.FOR_CALLERS))
def test_r8_what_is_no_frame_ends_that_watch_alone(
    places: Callable[[Kind], Place], contents: Contents, what: str, kind: Kind
) -> None:
    garbage, code = GARBAGE[what]
    path, place = contents.path("configmaps"), places(kind)
    with (
        WebSocketWatching(place.caller(), path, LISTED) as other,
        WebSocketWatching(place.caller(), path, LISTED) as watching,
    ):
        for each in (other, watching):
            each.wait_initial_end()
        at_rest = place.relay.memory()
        if what == "no end of fragments":
            feed(watching, garbage)
        else:
            watching.send_bytes(garbage)
        if what not in ("unmasked", "random"):
            watching.wait_ended()
            assert code is None or watching.close_code == code
        contents.configmap(f"after-{len(what)}")
        other.wait_told(("ADDED", f"after-{len(what)}"))
        assert place.relay.memory() < at_rest + 8 * 1024 * 1024
    assert "Traceback" not in place.relay.log_text()


def feed(watching: WebSocketWatching, fragment: bytes) -> None:
    """Until it is cut off, or has sent far more than anybody may."""
    try:
        for _ in range(2000):
            watching.send_bytes(fragment)
            fragment = b"\x00" + fragment[1:]
    except OSError:
        pass


@pytest.fixture(scope="module")
def places(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Callable[[Kind], Place]:
    """One of each kind for all tests that harm only their own connection."""
    made: dict[Kind, Place] = {}

    def place(kind: Kind) -> Place:
        if kind not in made:
            made[kind] = Place(kind, control_plane, flags=[PATIENT]).start()
            request.addfinalizer(made[kind].stop)
            made[kind].wait_up()
        return made[kind]

    return place


@pytest.mark.parametrize("kind", played(Kind.RELAY, Kind.FOR_CALLERS))
def test_r8_a_websocket_that_is_never_read_is_cut_off_and_nobody_else_notices(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    path = contents.path("configmaps")
    flags = ["--watch-buffer=1048576", PATIENT]
    with Place(kind, control_plane, flags=flags) as place:
        place.wait_up()
        caller = place.caller()
        version = caller.get(path).version
        target = f"{path}?watch=true&resourceVersion={version}&timeoutSeconds=120"
        at: Parameters = {**LONG, "resourceVersion": version}
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(30)
        with (
            # A reader in C: the other one is too slow itself where many tests run.
            caller.watch(path, at) as attentive,
            place.connect(sock) as connection,
        ):
            head = place.request_head(target)[:-2]
            head += "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items()).encode()
            connection.sendall(head + b"\r\n")
            wait_watchers(place, 2)
            names = [f"cm-{number:03}" for number in range(COUNT)]
            for name in names:
                contents.configmap(name, filler="x" * SIZE)
            attentive.wait_told(*(("ADDED", name) for name in names), timeout=60)
            received = drain(connection)
            wait_watchers(place, 1)
        assert received.startswith(b"HTTP/1.1 101 ")
        assert len(received) < COUNT * SIZE / 2
        assert told(received) == names[: len(told(received))]


def told(received: bytes) -> list[str]:
    """The names in the whole messages of a WebSocket."""
    left = received.partition(b"\r\n\r\n")[2]
    found = []
    while len(left) >= 10:
        assert left[0] == 0x81
        size, at = left[1], 2
        if size == 126:
            size, at = struct.unpack("!H", left[2:4])[0], 4
        elif size == 127:
            size, at = struct.unpack("!Q", left[2:10])[0], 10
        if len(left) < at + size:
            break
        found.append(json.loads(left[at : at + size])["object"]["metadata"]["name"])
        left = left[at + size :]
    return found


# ── who may, and what is refused before anything changes protocols ──


@pytest.mark.parametrize(
    ("headers", "protocols", "status"),
    [
        ({}, ["base64.binary.k8s.io"], 101),
        ({}, ["anything"], 101),
        ({}, ["a", "b"], 400),
        ({"Sec-WebSocket-Protocol": "a"}, [], 101),
    ],
)
def test_r1_a_handshake_is_answered_as_by_the_api_server(
    control_plane: ControlPlane,
    contents: Contents,
    headers: dict[str, str],
    protocols: list[str],
    status: int,
) -> None:
    path = contents.path("configmaps")
    for kind in (Kind.DIRECT, Kind.RELAY):
        with Place(kind, control_plane) as place:
            place.wait_up()
            answered = handshake(place, path, headers, protocols)
            assert answered == (status, (protocols or ["a"])[0] if status == 101 else None), kind


def handshake(
    place: Place, path: str, headers: dict[str, str], protocols: list[str]
) -> tuple[int, str | None]:
    """The answer's status, and the protocol that it names."""
    try:
        with WebSocketWatching(
            place.caller(), path, {"timeoutSeconds": 1}, headers=headers, protocols=protocols
        ) as watching:
            return watching.status, watching.handshake.get("sec-websocket-protocol")
    except websocket.WebSocketBadStatusException as refused:
        return refused.status_code, None


def test_r7_a_token_may_come_as_a_protocol_as_browsers_send_it(
    control_plane: ControlPlane, contents: Contents
) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    namespace = contents.namespace
    tokens = {
        "reader": control_plane.service_account_dir(namespace, "reader", rules).path,
        "stranger": control_plane.service_account_dir(namespace, "stranger", []).path,
    }
    contents.configmap("secret-plans")
    with Place(Kind.FOR_CALLERS, control_plane) as place:
        place.wait_up()

        def ask(token: str, *protocols: str) -> tuple[int, list[str]]:
            """As who has no header of its own."""
            caller = place.caller()
            bare = type(caller)(place.url, context=place.tls(), headers={"Accept": "*/*"})
            hidden = base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
            offered = [f"base64url.bearer.authorization.k8s.io.{hidden}"] if token else []
            try:
                with WebSocketWatching(
                    bare, contents.path("configmaps"), LISTED, protocols=[*offered, *protocols]
                ) as watching:
                    watching.wait_initial_end()
                    assert watching.protocol == protocols[0]
                    return watching.status, [it.name for it in watching.events()]
            except websocket.WebSocketBadStatusException as refused:
                return refused.status_code, []

        reader, stranger = ((tokens[it] / "token").read_text() for it in ("reader", "stranger"))
        names = ["kube-root-ca.crt", "secret-plans"]
        for is_cut in (False, True):
            if is_cut:
                place.cut()
            status, seen = ask(reader, "base64.binary.k8s.io")
            assert (status, sorted(set(seen) & set(names))) == (101, ["secret-plans"])
            assert ask(stranger, "x") == (403, [])
            assert ask(reader) == (401, []), "the answer has to name another one"
            assert ask("", "x") == (401, [])
            assert ask("a\r\nb", "x") == (401, []), "it would go on in a header"
            assert reader not in place.relay.log_text()


def test_r7_a_websocket_of_a_web_page_is_refused(
    places: Callable[[Kind], Place], contents: Contents
) -> None:
    caller = places(Kind.RELAY).caller()
    path: str = contents.path("configmaps")
    for headers in ({"Origin": "http://evil.example.com"}, {"Host": "evil.example.com"}):
        refused = caller.ask(path, {**LONG, "watch": "true"}, headers={**UPGRADE, **headers})
        assert refused.status == HTTPStatus.FORBIDDEN


# ── what is passed on, and what needs no upgrade ──


@spoken
def test_r9_a_watch_that_is_passed_on_over_a_websocket_ends_with_the_link(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    contents.configmap("shown")
    path = contents.path("configmaps")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, LONG, headers=TABLE) as watching:
            watching.wait_for(lambda it: bool(it.seen), what="the table")
            assert watching.seen[0].object["kind"] == "Table"
            place.cut(black_hole=True)
            watching.wait_ended()


@pytest.mark.parametrize("kind", played(Kind.RELAY, Kind.FOR_CALLERS))
def test_r1_a_relay_that_ends_is_not_held_up_by_websockets(
    control_plane: ControlPlane, contents: Contents, kind: Kind
) -> None:
    """The client knows at once that it has to watch again."""
    path = contents.path("configmaps")
    with Place(kind, control_plane) as place:
        place.wait_up()
        with WebSocketWatching(place.caller(), path, LISTED) as watching:
            watching.wait_initial_end()
            assert place.relay.terminate() == 0
            watching.wait_ended()
