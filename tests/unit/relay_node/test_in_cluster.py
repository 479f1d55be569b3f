"""The directory of in-cluster clients, as `relay-sidecar in-cluster` makes it and keeps it."""

import os
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from relay_node.commands import in_cluster
from relay_node.commands.node import DATA_DIR
from relay_node.in_cluster.service_account import publish
from relay_node.installer.installation import PUBLIC_CA
from tools.harness.pods.observers.observer import wait_for
from tools.harness.processes.process import installed

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
FILES = {"ca.crt": b"a", "token": b"t", "namespace": b"n"}


class Pod:
    """What kubelet and the relay put there, and what is made of it."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "public-ca.crt"
        self.source = folder / "source"
        self.output = folder / "output"
        self.source.mkdir()

    def put(self, *, token: str = "token-1", authority: str = CERTIFICATE) -> None:
        for path, text in (
            (self.authority, authority),
            (self.source / "token", token),
            (self.source / "namespace", "shop"),
        ):
            fresh = path.with_suffix(".new")
            fresh.write_text(text)
            fresh.rename(path)

    @property
    def flags(self) -> list[str]:
        return [
            f"--certificate-authority={self.authority}",
            f"--service-account-dir={self.source}",
            f"--output={self.output}",
        ]

    def once(self, *more: str) -> int:
        return in_cluster.main(["--once", *self.flags, *more], {})

    @contextmanager
    def process(self, *more: str) -> Iterator["subprocess.Popen[str]"]:
        command = [str(installed("relay-sidecar")), "in-cluster", *self.flags, *more]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as it:
            try:
                yield it
            finally:
                it.kill()

    def written(self) -> dict[str, str]:
        """As a client finds it."""
        return {
            name: (self.output / name).read_text()
            for name in ("ca.crt", "token", "namespace")
            if (self.output / name).exists()
        }


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    return Pod(tmp_path)


EXPECTED = {"ca.crt": CERTIFICATE, "token": "token-1", "namespace": "shop"}


# ── what is written ──


def test_clients_find_the_relays_authority_and_the_pods_own_token(pod: Pod) -> None:
    pod.put()
    assert pod.once() == 0
    assert pod.written() == EXPECTED


def test_every_user_of_the_pod_may_read_it_whatever_the_umask(pod: Pod) -> None:
    pod.put()
    before = os.umask(0o077)
    try:
        assert pod.once() == 0
    finally:
        os.umask(before)
    assert {stat.S_IMODE((pod.output / name).stat().st_mode) for name in FILES} == {0o644}


def test_every_user_of_the_pod_may_read_it_in_memory_too(pod: Pod) -> None:
    """Where kubelet makes an emptyDir that is sticky, whose links are for their maker only."""
    pod.output.mkdir()
    pod.output.chmod(0o1777)
    pod.put()
    assert pod.once() == 0
    assert all((pod.output / name).is_file() for name in FILES)
    assert not any((pod.output / name).is_symlink() for name in FILES)


def test_a_namespace_may_be_told(pod: Pod) -> None:
    pod.put()
    (pod.source / "namespace").unlink()
    assert pod.once("--namespace=other") == 0
    assert pod.written()["namespace"] == "other"


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    assert publish(tmp_path, FILES)
    before = {name: (tmp_path / name).stat().st_ino for name in FILES}
    assert not publish(tmp_path, FILES)
    assert publish(tmp_path, {**FILES, "token": b"other"})
    after = {name: (tmp_path / name).stat().st_ino for name in FILES}
    assert {name for name in FILES if before[name] != after[name]} == {"token"}


def test_a_life_that_ended_in_the_middle_is_made_good(tmp_path: Path) -> None:
    publish(tmp_path, FILES)
    (tmp_path / "token").unlink()
    (tmp_path / ".token.new").write_bytes(b"half of a longer one")
    assert publish(tmp_path, FILES)
    assert (tmp_path / "token").read_bytes() == b"t"
    assert {path.name for path in tmp_path.iterdir()} == {*FILES, ".relay-sidecar"}


def test_a_reader_finds_whole_files(tmp_path: Path) -> None:
    size = 50_000

    def files(number: int) -> dict[str, bytes]:
        return dict.fromkeys(FILES, b"%06d" % number * (size // 6))

    publish(tmp_path, files(0))
    is_done = threading.Event()
    seen: list[int] = []
    broken: list[str] = []

    def read() -> None:
        while not is_done.is_set():
            token = (tmp_path / "token").read_bytes()
            if token != files(int(token[:6]))["token"]:
                broken.append("a half")
            seen.append(int(token[:6]))

    def follow() -> None:
        try:
            read()
        except OSError as error:
            broken.append(str(error))

    def was_read(before: int) -> None:
        wait_for(
            lambda: len(seen) > before or broken != [], timeout=20, what="a reader", interval=0.001
        )

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    for number in range(1, 100):
        publish(tmp_path, files(number))
        # As slow as kubelet is beside any reader: one change at most while it reads.
        was_read(len(seen))
    is_done.set()
    reader.join()
    assert broken == []
    assert len(set(seen)) > 10


# ── its life ──


def test_it_waits_for_each_file_and_says_which(pod: Pod) -> None:
    with pod.process() as it:
        assert it.stderr is not None
        assert str(pod.authority) in it.stderr.readline()
        assert pod.written() == {}
        pod.authority.write_text(CERTIFICATE)
        assert str(pod.source / "token") in it.stderr.readline()
        assert pod.written() == {}
        pod.put()
        assert "directory written" in it.stderr.readline()
        assert pod.written() == EXPECTED


def test_it_follows_kubelet_and_the_relay_until_sigterm(pod: Pod) -> None:
    pod.put()
    with pod.process() as it:
        wait_for(lambda: pod.written() == EXPECTED, timeout=10, what="the directory")
        pod.put(token="token-2")
        wait_for(lambda: pod.written()["token"] == "token-2", timeout=10, what="the new token")
        pod.put(token="token-2", authority=CERTIFICATE * 2)
        wait_for(
            lambda: pod.written()["ca.crt"] == CERTIFICATE * 2, timeout=10, what="the authority"
        )
        it.send_signal(signal.SIGTERM)
        assert it.wait(timeout=10) == 0
        assert it.stderr is not None
        assert "token-" not in it.stderr.read()


@pytest.mark.parametrize("gone", ["token", "authority", "half"])
def test_what_is_there_stays_where_a_source_is_gone(pod: Pod, gone: str) -> None:
    pod.put()
    with pod.process() as it:
        wait_for(lambda: pod.written() == EXPECTED, timeout=10, what="the directory")
        if gone == "token":
            (pod.source / "token").unlink()
        elif gone == "authority":
            pod.authority.unlink()
        else:
            pod.authority.write_text("-----BEGIN")
        assert it.stderr is not None
        assert "written" in it.stderr.readline()
        assert "waits" in it.stderr.readline()
        assert pod.written() == EXPECTED


@pytest.mark.parametrize(("flags", "status"), [([], 0), (["--once"], 1)])
def test_a_signal_ends_the_waiting(pod: Pod, flags: list[str], status: int) -> None:
    with pod.process(*flags) as it:
        assert it.stderr is not None
        it.stderr.readline()
        it.send_signal(signal.SIGTERM)
        assert it.wait(timeout=10) == status


# ── bad input ──


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert in_cluster.main(list(arguments), {}) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    return told


def test_an_output_is_to_be_named_and_another_than_kubelets(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.put()
    assert "--output is missing" in refused(capsys, *pod.flags[:2])
    assert "name another" in refused(capsys, *pod.flags[:2], f"--output={pod.source}")
    assert "did you mean --once" in refused(capsys, *pod.flags, "--onc")


def test_a_file_of_others_is_not_replaced(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    pod.put()
    pod.output.mkdir()
    (pod.output / "token").write_text("another's")
    assert str(pod.output / "token") in refused(capsys, "--once", *pod.flags)
    assert (pod.output / "token").read_text() == "another's"
    with pytest.raises(BadInput, match="empty directory"):
        publish(pod.output, FILES)


def test_the_authority_is_where_the_node_has_it() -> None:
    assert Path(in_cluster.AUTHORITY) == DATA_DIR / PUBLIC_CA


def test_for_a_relay_in_the_pod_the_certificate_is_made_and_handed_out(
    pod: Pod, tmp_path: Path
) -> None:
    pod.put()
    flags = ["--once", *pod.flags[1:], f"--serving={tmp_path / 'tls/serving.pem'}"]
    assert in_cluster.main(flags, {}) == 0
    handed_out = (pod.output / "ca.crt").read_bytes()
    assert (tmp_path / "tls/serving.pem").read_bytes().startswith(handed_out)
    assert b"PRIVATE" not in handed_out
    assert in_cluster.main(flags, {}) == 0
    assert (pod.output / "ca.crt").read_bytes() == handed_out


def test_a_certificate_to_make_and_one_to_take_exclude_each_other(
    pod: Pod, capsys: pytest.CaptureFixture[str]
) -> None:
    pod.put()
    assert pod.once("--serving=/tmp/x.pem") == 2
    assert "--serving /tmp/x.pem makes what --certificate-authority" in capsys.readouterr().err
