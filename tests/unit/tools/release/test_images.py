"""The parts of an image's archive: each is the same twice, and is what the Dockerfile says."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_sidecars.runtime.cli.values import BadInput
from tests.unit.repository.checkout import document
from tools.images.assemble import COMPONENTS
from tools.images.keepalived import DOCKERFILE as KEEPALIVED_DOCKERFILE
from tools.release.__main__ import created
from tools.release.images import layer
from tools.release.images.archive import Archive, Layer, archive
from tools.release.images.debian import KEEPALIVED, MACHINES, PYTHON, Packages, pins
from tools.release.images.dockerfile import image_of
from tools.release.images.sbom import sbom

DOCKERFILE = document("tools/images/Dockerfile")
VARIABLES = {"VERSION": "1.2.3", "REVISION": "abc"}
NAME = "registry.example/edge/relay-sidecar:1.2.3"
DATA = {"relay": ["/var/lib/relay-sidecar"], "pool": ["/var/lib/pool-sidecar"]} | {
    "lc": ["/rootfs/var/lib/sedna"]
}
STATUS = """Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.36-9+deb12u13
Description: GNU C Library
 Version: 1 is not its version

Package: ca-certificates
Status: install ok installed
Architecture: all
Version: 20250419~deb12u2
"""


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_container_runs_as_the_dockerfile_says(component: str) -> None:
    image = image_of(component, DOCKERFILE, VARIABLES)
    program = COMPONENTS[component].program
    assert image.config["Entrypoint"] == [program]
    assert image.config["User"] == "65532:65532"
    assert image.config["WorkingDir"] == "/"
    assert image.config["Env"][0].startswith("PATH=/app/bin:")
    assert image.config["Labels"]["org.opencontainers.image.version"] == "1.2.3"
    assert image.config["Labels"]["org.opencontainers.image.revision"] == "abc"
    assert image.config["ExposedPorts"]
    assert image.config["Healthcheck"] == {
        "Test": ["CMD", program, "livez"],
        "Interval": 30_000_000_000,
        "Timeout": 5_000_000_000,
        "StartPeriod": 30_000_000_000,
    }
    assert image.data == DATA.get(component, [])


def test_a_container_of_keepalived_runs_and_has_files_as_its_dockerfile_says() -> None:
    image = image_of("", KEEPALIVED_DOCKERFILE.read_text(encoding="utf-8"), {})
    scripts = "/usr/local/libexec/edge-sidecars/"
    assert image.config == {
        "Entrypoint": [f"{scripts}start"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
    }
    assert image.copied == [
        (["keepalived.conf"], "/etc/keepalived/"),
        (["check-leader", "container/start"], scripts),
    ]
    assert image.modes == [("644", "/etc/keepalived/keepalived.conf"), ("755", f"{scripts}*")]


@pytest.mark.parametrize(
    "line",
    [
        *("VOLUME /data", "COPY secrets /secrets", "COPY secrets /secrets/", "HEALTHCHECK NONE"),
        "RUN chmod 755 /app",
    ],
)
def test_what_an_archive_would_lack_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=line.split()[0]):
        image_of("relay", f"{DOCKERFILE}\n{line}\n", VARIABLES)


@pytest.mark.parametrize(
    "line", ["VOLUME /run", "COPY start /start", "RUN rm /start", "RUN chmod 755 /a && rm /a"]
)
def test_what_the_archive_of_keepalived_would_lack_is_an_error(line: str) -> None:
    text = KEEPALIVED_DOCKERFILE.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=line.split()[0]):
        image_of("", f"{text}\n{line}\n", {})


def written(folder: Path, target: Path) -> bytes:
    command = [sys.executable, str(layer.__file__), str(target), f"{folder}=opt/it@7"]
    digest, plain = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    content = target.read_bytes()
    assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert plain != digest
    return content


def test_a_layer_is_the_same_whenever_and_by_whomever_its_files_were_made(tmp_path: Path) -> None:
    for name, names, umask, time in (("one", "abc", 0o022, 0), ("two", "cba", 0o077, 10**9)):
        before = os.umask(umask)
        try:
            (tmp_path / name).mkdir()
            for it in names:
                (tmp_path / name / it).mkdir()
                (tmp_path / name / it / "file").write_text(it, encoding="utf-8")
                os.utime(tmp_path / name / it / "file", (time, time))
            (tmp_path / name / "program").touch(mode=0o755)
            (tmp_path / name / "link").symlink_to("/a/file")
        finally:
            os.umask(before)
    one, two = (written(tmp_path / it, tmp_path / f"{it}.tgz") for it in ("one", "two"))
    assert one == two
    with tarfile.open(fileobj=io.BytesIO(one)) as entries:
        found = {it.name: (it.mode, it.uid, it.gid, it.mtime) for it in entries}
    assert list(found) == [
        *("opt", "opt/it", "opt/it/a", "opt/it/a/file", "opt/it/b", "opt/it/b/file"),
        *("opt/it/c", "opt/it/c/file", "opt/it/link", "opt/it/program"),
    ]
    assert found["opt"] == (0o755, 0, 0, 0)
    assert found["opt/it/a/file"] == (0o644, 7, 7, 0)
    assert found["opt/it/program"] == (0o755, 7, 7, 0)


def packed(architecture: str = "arm64") -> Archive:
    layers = [Layer(b"packed", "sha256:" + hashlib.sha256(b"packed").hexdigest(), "p", "w")]
    config = image_of("relay", DOCKERFILE, VARIABLES).config
    return archive(
        NAME, architecture=architecture, config=config, layers=layers, created=1_700_000_000
    )


def blobs(it: Archive) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(it.content)) as entries:
        for entry in entries:
            file = entries.extractfile(entry)
            assert file is not None
            yield entry.name, file.read()


def test_an_archive_is_a_layout_in_which_each_blob_is_named_by_its_content() -> None:
    files = dict(blobs(packed()))
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    [entry] = json.loads(files["index.json"])["manifests"]
    assert entry["digest"] == packed().digest
    assert entry["platform"] == {"architecture": "arm64", "os": "linux", "variant": "v8"}
    assert entry["annotations"]["io.containerd.image.name"] == NAME
    manifest = json.loads(files[f"blobs/{entry['digest'].replace(':', '/')}"])
    named = [manifest["config"], *manifest["layers"]]
    for it in named:
        assert it["size"] == len(files[f"blobs/{it['digest'].replace(':', '/')}"])
    config = json.loads(files[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert config["created"] == "2023-11-14T22:13:20Z"
    assert config["rootfs"]["diff_ids"] == ["p"]
    [saved] = json.loads(files["manifest.json"])
    assert saved["RepoTags"] == [NAME]
    assert {saved["Config"], *saved["Layers"]} <= files.keys()
    assert list(files) == sorted(files)


def test_an_archive_of_another_architecture_is_another_image() -> None:
    assert packed() == packed()
    assert packed("amd64").digest != packed("arm64").digest


def test_the_list_of_what_is_inside_names_packages_of_debian_and_of_python(tmp_path: Path) -> None:
    for name, version in (("aiohttp", "3.14.1"), ("Zope.Interface", "7.0")):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        fields = f"Name: {name}\nVersion: {version}\nLicense-Expression: Apache-2.0\n"
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\n{fields}", encoding="utf-8")
    texts = [
        sbom(
            NAME,
            digest=f"sha256:{digit * 64}",
            architecture="arm64",
            created=1_700_000_000,
            debian=STATUS,
            library=tmp_path,
        )
        for digit in "112"
    ]
    assert texts[0] == texts[1]
    document = json.loads(texts[0])
    assert [it["purl"] for it in document["components"]] == [
        "pkg:deb/debian/ca-certificates@20250419~deb12u2?arch=all",
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=arm64",
        "pkg:pypi/aiohttp@3.14.1",
        "pkg:pypi/zope-interface@7.0",
    ]
    assert document["components"][2]["licenses"] == [{"expression": "Apache-2.0"}]
    assert document["metadata"]["component"]["name"] == "relay-sidecar"
    assert document["serialNumber"] != json.loads(texts[2])["serialNumber"]


@pytest.mark.parametrize("packages", [PYTHON, KEEPALIVED], ids=["python", "keepalived"])
def test_both_architectures_have_the_same_packages_each_by_its_hash(packages: Packages) -> None:
    names = set()
    for architecture in MACHINES:
        lines = packages.lock(architecture).read_text(encoding="ascii").splitlines()
        assert all(len(line.partition("  ")[0]) == 64 for line in lines)
        names.add(frozenset(it.partition("=")[0] for it in pins("\n".join(lines))))
    [locked] = names
    assert {"libc6", *packages.names} <= locked


def test_a_version_is_as_apt_takes_it() -> None:
    assert pins(f"{'0' * 64}  zlib1g_1%3a1.2.13.dfsg-1_amd64.deb\n") == ["zlib1g=1:1.2.13.dfsg-1"]


def test_the_time_of_a_release_is_that_of_its_commit_or_a_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert created(tmp_path) == 1_700_000_000
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(BadInput, match="yesterday"):
        created(tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    with pytest.raises(BadInput, match="SOURCE_DATE_EPOCH"):
        created(tmp_path)
