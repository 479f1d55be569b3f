"""Bad inputs that only a process meets: ports that are taken, files, packages that are missing.

A row is a program with its arguments and variables. `{tmp}` is a folder that has the files of
`prepare`, `{port}` a port that is taken.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class BadInput:
    """`named`: the value, and the remedy. `missing`: a Python package that is not installed."""

    command: str
    named: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict, hash=False)
    missing: str = ""

    def __str__(self) -> str:
        variables = [f"{name}={value}" for name, value in self.environ.items()]
        without = [f"without-{self.missing}"] if self.missing else []
        return " ".join([*variables, self.command, *without])


def prepare(folder: Path) -> None:
    """The files that rows name."""
    (folder / "yaml").write_text("a: [\n  b: }\n", encoding="utf-8")
    (folder / "json").write_text('{"clusters": [', encoding="utf-8")
    (folder / "list").write_text("[1, 2]", encoding="utf-8")
    (folder / "empty").write_text("", encoding="utf-8")
    (folder / "latin").write_bytes(b"\xff\xfe")
    (folder / "text").write_text("no certificate\n", encoding="utf-8")
    _write_kubeconfig(folder / "ftp", "ftp://example")
    _write_kubeconfig(folder / "http", "http://127.0.0.1:1")
    _write_kubeconfig(folder / "https", "https://127.0.0.1:1")
    _write_kubeconfig(
        folder / "without-certificate",
        "https://127.0.0.1:1",
        {"client-certificate": "/nowhere/kubelet.pem", "client-key": "/nowhere/kubelet.pem"},
    )
    (folder / "folder").mkdir()
    # What is a file is no folder to write to, also for root.
    (folder / "file").write_text("", encoding="utf-8")


def _write_kubeconfig(path: Path, server: str, user: Mapping[str, str] | None = None) -> None:
    kubeconfig = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(kubeconfig), encoding="utf-8")


_RUN = "elector-sidecar --lease l --namespace n --server http://127.0.0.1:1"
_RELAY = "relay-sidecar --server http://127.0.0.1:1 --data-dir memory"
_OF_NODE = "pool-sidecar --node n --lan-address 127.0.0.1"
_MEMBER = f"{_OF_NODE} --node-kubeconfig {{tmp}}/https --data-dir {{tmp}}/pool"
_ANYWHERE = "--listen 127.0.0.1:0 --proxy-listen 127.0.0.1:0"
_CONTROLLER = "pool-sidecar controller --server http://127.0.0.1:1"
_LC = "sedna-lc --root {tmp}/folder --node n --gm-address 127.0.0.1:1"

ELECTOR = (
    BadInput("elector-sidecar", ("no flag", "--help")),
    BadInput("elector-sidecar statsu", ("'statsu'", "did you mean status?")),
    BadInput("elector-sidecar --lease l --namespace n", ("KUBERNETES_SERVICE_HOST", "--server")),
    BadInput(
        "elector-sidecar --lease l --server http://h",
        ("POD_NAMESPACE", "N"),
        {"POD_NAMESPACE": "N"},
    ),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/absent", ("{tmp}/absent", "kubectl config view")),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/yaml", ("{tmp}/yaml", "kubectl config view")),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/json", ("{tmp}/json", "kubectl config view")),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/latin", ("{tmp}/latin", "kubectl config view")),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/folder", ("{tmp}/folder", "kubectl config view")),
    BadInput(f"{_RUN} --kubeconfig {{tmp}}/yaml", ("PyYAML", "install"), missing="yaml"),
    BadInput("elector-sidecar status --lease l", ("{tmp}/absent",), {"KUBECONFIG": "{tmp}/absent"}),
    BadInput("elector-sidecar status --lease l --kubeconfig {tmp}/list", ("{tmp}/list",)),
)

RELAY = (
    BadInput("relay-sidecar", ("RELAY_", "--help")),
    BadInput("relay-sidecar kubconfig", ("'kubconfig'", "did you mean kubeconfig?")),
    BadInput(f"{_RELAY} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(
        f"{_RELAY} --tls-cert-file {{tmp}}/text --tls-private-key-file {{tmp}}/text",
        ("{tmp}/text", "--tls-cert-file"),
    ),
    BadInput(f"{_RELAY} --local-token-file {{tmp}}/absent", ("{tmp}/absent", "--local-token-file")),
    BadInput("relay-sidecar --kubeconfig {tmp}/ftp", ("ftp://example", "{tmp}/ftp")),
    BadInput(_RELAY, ("uvloop", "install the extra relay"), missing="uvloop"),
    BadInput("relay-sidecar kubeconfig --tls-cert-file {tmp}/text", ("{tmp}/text", "PEM")),
    BadInput("relay-sidecar in-cluster --once --output {tmp}/file", ("{tmp}/file", "directory")),
    BadInput("relay-sidecar node instal", ("'instal'", "did you mean install?")),
    BadInput(
        "relay-sidecar node uninstall --data-dir {tmp}/folder", ("{tmp}/folder", "--data-dir")
    ),
)

GM = (
    BadInput("sedna-gm", ("GM_", "--help")),
    BadInput("sedna-gm --listen 127.0.0.1:{port}", ("127.0.0.1:{port}", "choose")),
    BadInput(
        "sedna-gm --listen 127.0.0.1:0 --stream-listen 127.0.0.1:{port}",
        ("127.0.0.1:{port}", "choose another address"),
    ),
    BadInput(
        "sedna-gm --listen 127.0.0.1:0 --stream-listen 127.0.0.1:0 "
        "--tls-cert {tmp}/text --tls-key {tmp}/text",
        ("--tls-cert", "{tmp}/text"),
    ),
    BadInput("sedna-gm --mode relay", ("msgspec", "extra gm"), missing="msgspec"),
)

LC = (
    BadInput("sedna-lc", ("LC_", "--help")),
    BadInput("sedna-lc --node n --gm-address h:1 --root {tmp}/absent", ("{tmp}/absent", "mount")),
    BadInput(_LC, ("BIND_PORT", "'99999'", "from 1 to 65535"), {"BIND_PORT": "99999"}),
    BadInput(f"{_LC} --bind-port {{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_LC} --data-dir {{tmp}}/file", ("{tmp}/file", "--data-dir")),
)

POOL = (
    BadInput("pool-sidecar", ("POOL_", "--help")),
    BadInput("pool-sidecar contoller", ("'contoller'", "did you mean controller?")),
    BadInput("pool-sidecar --lan-address 127.0.0.1", ("--node", "NODE_NAME")),
    BadInput("pool-sidecar --node n", ("--lan-address", "HOST_IP")),
    BadInput(
        _OF_NODE,
        ("--node-kubeconfig", ":/etc/kubernetes/kubelet.conf", "No such file", "kubectl config"),
    ),
    BadInput(f"{_OF_NODE} --node-kubeconfig {{tmp}}/yaml", ("--node-kubeconfig {tmp}/yaml",)),
    BadInput(f"{_OF_NODE} --node-kubeconfig {{tmp}}/http", ("http://127.0.0.1:1", "https")),
    BadInput(
        f"{_OF_NODE} --node-kubeconfig {{tmp}}/without-certificate",
        ("{tmp}/without-certificate", "/nowhere/kubelet.pem"),
    ),
    BadInput(f"{_MEMBER} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_MEMBER} {_ANYWHERE} --lan-port {{port}}", ("port {port}", "--lan-port")),
    # TEST-NET-1: no machine has it.
    BadInput(
        f"pool-sidecar --node n --lan-address 192.0.2.7 {_ANYWHERE} "
        "--node-kubeconfig {tmp}/https --data-dir {tmp}/pool",
        ("192.0.2.7", "--lan-address"),
    ),
    BadInput(f"{_MEMBER}/../file", ("--data-dir {tmp}/pool/../file", "a folder")),
    BadInput(f"{_MEMBER} --token-file {{tmp}}/empty", ("{tmp}/empty", "another file")),
    BadInput(f"{_MEMBER} --relay-token-file {{tmp}}/absent", ("{tmp}/absent", "name a token's")),
    BadInput(f"{_MEMBER} --lease-file {{tmp}}/absent/lease", ("{tmp}/absent/lease", "a folder")),
    BadInput(f"{_CONTROLLER} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(
        "pool-sidecar controller --server https://h --service-account-dir {tmp}/absent",
        ("{tmp}/absent", "--kubeconfig"),
    ),
)

TOOLS = (
    BadInput("demo --pasue 1", ("--pasue", "did you mean --pause?")),
    BadInput("demo --lease-duration 1s", ("1s", "lease")),
    BadInput("images --only kube", ("'kube'", "elector")),
)

ALL = (*ELECTOR, *RELAY, *GM, *LC, *POOL, *TOOLS)
