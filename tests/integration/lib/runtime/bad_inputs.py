"""Bad inputs of all command lines, and what the one line about each of them has to name.

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
    BadInput("elector-sidecar rnu", ("'rnu'", "run")),
    BadInput("elector-sidecar statsu", ("'statsu'", "did you mean status?")),
    BadInput("elector-sidecar --laese l", ("--laese", "did you mean --lease?")),
    BadInput("elector-sidecar --lease", ("--lease", "write --lease NAME")),
    BadInput("elector-sidecar run --lease l extra", ("extra", "--help")),
    BadInput(
        "elector-sidecar --lease L_L --namespace n --server http://h", ("'L_L'", "lower-case")
    ),
    BadInput("elector-sidecar --lease l --namespace N --server http://h", ("'N'", "lower-case")),
    BadInput("elector-sidecar --lease l --server http://h", ("--namespace", "name it")),
    BadInput("elector-sidecar --lease l --namespace n", ("KUBERNETES_SERVICE_HOST", "--server")),
    BadInput(f"{_RUN} --election old", ("'l'", "'old'", "drop --election")),
    BadInput(f"{_RUN} --lease-duration 1s", ("1s", "under 3s")),
    BadInput(f"{_RUN} --lease-duration soon", ("'soon'", "like 15s")),
    BadInput(f"{_RUN} --renew-interval 20s", ("20s", "--renew-interval")),
    BadInput(f"{_RUN} --shards 1", ("'1'", "drop the flag")),
    BadInput(f"{_RUN} --shards 999", ("'999'", "from 2 to 256")),
    BadInput(f"{_RUN} --shards 8 --on-missing take", ("--on-missing take", "drop")),
    BadInput(f"{_RUN} --shard-settle 3s", ("--shard-settle 3s", "--shards")),
    BadInput(f"{_RUN} --on-missing tkae", ("'tkae'", "wait, take")),
    BadInput(f"{_RUN} --listen 4040", ("'4040'", "like 127.0.0.1:8080")),
    BadInput(f"{_RUN} --listen 127.0.0.1:70000", ("'127.0.0.1:70000'", "like 127.0.0.1:8080")),
    BadInput(f"{_RUN} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_RUN} --listen unix:/nowhere/e.sock", ("/nowhere/e.sock", "choose")),
    BadInput(f"{_RUN} --listen unix:e.sock", ("'unix:e.sock'", "absolute path")),
    BadInput(f"{_RUN} --socket-mode 0660", ("--socket-mode 0660", "unix:/PATH")),
    BadInput(f"{_RUN} --listen unix:/e --socket-mode 999", ("'999'", "like 0660")),
    BadInput(f"{_RUN} --health-url localhost", ("'localhost'", "://")),
    BadInput(f"{_RUN} --health-interval 2s", ("--health-interval 2s", "--health-url")),
    BadInput(f"{_RUN} --health-url http://h --health-failures 0", ("0", "at least 1")),
    BadInput(f"{_RUN} --health-url http://h --health-failures few", ("'few'", "whole number")),
    BadInput(f"{_RUN} --drain-timeout 3s", ("--drain-timeout 3s", "--drain-url")),
    BadInput(f"{_RUN} --context c", ("--context c", "--kubeconfig")),
    BadInput(f"{_RUN} --leader-label role", ("'role'", "KEY=VALUE")),
    BadInput(f"{_RUN} --leader-label role=leader", ("--leader-label", "POD_NAME")),
    BadInput(f"{_RUN} --log-level loud", ("'loud'", "choose one of")),
    BadInput(f"{_RUN}", ("ELECTOR_LEASE_DURATION", "1s"), {"ELECTOR_LEASE_DURATION": "1s"}),
    BadInput(f"{_RUN}", ("ELECTOR_LISTEN", "'x'", "like"), {"ELECTOR_LISTEN": "x"}),
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
    BadInput("elector-sidecar check --url 4040", ("'4040'", "://")),
    BadInput("elector-sidecar check --urk x", ("--urk", "--url")),
    BadInput("elector-sidecar check --min-age", ("--min-age", "lacks its value")),
    BadInput("elector-sidecar check --min-age -1s", ("'-1s'", "like 2s")),
    BadInput("elector-sidecar check --timeout 0", ("'0'", "more than 0")),
    BadInput("elector-sidecar check", ("ELECTOR_LISTEN", "'x'"), {"ELECTOR_LISTEN": "x"}),
    BadInput("elector-sidecar livez --timeout soon", ("'soon'", "like 2s")),
    BadInput("elector-sidecar livez", ("ELECTOR_LISTEN", "'x'"), {"ELECTOR_LISTEN": "x"}),
    BadInput("elector-sidecar status --url ftp://h", ("'ftp://h'", "like http://")),
    BadInput("elector-sidecar status --output xml", ("'xml'", "json")),
    BadInput("elector-sidecar status --namespace n", ("--namespace n", "--lease")),
    BadInput("elector-sidecar status --lease l --url http://h", ("--url http://h", "drop one")),
    BadInput("elector-sidecar status --lease l", ("{tmp}/absent",), {"KUBECONFIG": "{tmp}/absent"}),
    BadInput("elector-sidecar status --lease l --kubeconfig {tmp}/list", ("{tmp}/list",)),
    BadInput("elector-sidecar status --lease L", ("'L'", "lower-case")),
    BadInput("elector-sidecar status", ("ELECTOR_LISTEN", "'x'"), {"ELECTOR_LISTEN": "x"}),
    BadInput("elector-sidecar shards --utl x", ("--utl", "did you mean --url?")),
    BadInput("elector-sidecar shards --url http://h:99999", ("'http://h:99999'", "like")),
)

RELAY = (
    BadInput("relay-sidecar", ("RELAY_", "--help")),
    BadInput("relay-sidecar kubconfig", ("'kubconfig'", "did you mean kubeconfig?")),
    BadInput("relay-sidecar --sever http://h", ("--sever", "did you mean --server?")),
    BadInput("relay-sidecar --data-dir memory", ("KUBERNETES_SERVICE_HOST", "--server")),
    BadInput("relay-sidecar --server api:6443", ("'api:6443'", "://")),
    BadInput(f"{_RELAY} --listen 0.0.0.0:10550", ("0.0.0.0:10550", "--access caller")),
    BadInput(f"{_RELAY} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_RELAY} --status-listen 127.0.0.1:10550", ("127.0.0.1:10550", "another port")),
    BadInput(f"{_RELAY} --request-timeout 1ms", ("0.001s", "at least 0.1s")),
    BadInput(f"{_RELAY} --max-objects 0", ("0", "at least 1")),
    BadInput(f"{_RELAY} --watch-buffer 1Ki", ("1024", "at least 64Ki")),
    BadInput(f"{_RELAY} --watch-buffer big", ("'big'", "like 4Mi")),
    BadInput(f"{_RELAY} --retain 1m", ("60s", "--idle-timeout")),
    BadInput(f"{_RELAY} --preload Pods", ("'Pods'", "like")),
    BadInput(f"{_RELAY} --access-ttl 1m", ("--access-ttl 1m", "--access caller")),
    BadInput(f"{_RELAY} --tls-cert-file c", ("--tls-private-key-file", "name both")),
    BadInput(
        f"{_RELAY} --tls-cert-file {{tmp}}/text --tls-private-key-file {{tmp}}/text",
        ("{tmp}/text", "--tls-cert-file"),
    ),
    BadInput(f"{_RELAY} --local-token-file {{tmp}}/absent", ("{tmp}/absent", "--local-token-file")),
    BadInput("relay-sidecar --kubeconfig {tmp}/absent", ("{tmp}/absent", "kubectl config view")),
    BadInput("relay-sidecar --kubeconfig {tmp}/ftp", ("ftp://example", "{tmp}/ftp")),
    BadInput("relay-sidecar", ("RELAY_SERVER", "'api'"), {"RELAY_SERVER": "api"}),
    BadInput(_RELAY, ("RELAY_MAX_OBJECTS", "0"), {"RELAY_MAX_OBJECTS": "0"}),
    BadInput(_RELAY, ("uvloop", "install the extra relay"), missing="uvloop"),
    BadInput("relay-sidecar kubeconfig --access all", ("'all'", "own, caller")),
    BadInput("relay-sidecar kubeconfig --tls-cert-file {tmp}/text", ("{tmp}/text", "PEM")),
    BadInput("relay-sidecar kubeconfig --output /nowhere/k", ("/nowhere/k", "a folder that is")),
    BadInput("relay-sidecar kubeconfig --url https://h", ("https://h", "--tls-cert-file")),
    BadInput("relay-sidecar kubeconfig", ("RELAY_LISTEN", "'x'"), {"RELAY_LISTEN": "x"}),
    BadInput("relay-sidecar in-cluster", ("--output", "name the directory")),
    BadInput("relay-sidecar in-cluster --once --output {tmp}/file", ("{tmp}/file", "directory")),
    BadInput("relay-sidecar status --url 127.0.0.1", ("'127.0.0.1'", "://")),
    BadInput("relay-sidecar status", ("RELAY_STATUS_LISTEN", "'x'"), {"RELAY_STATUS_LISTEN": "x"}),
    BadInput("relay-sidecar livez --url x", ("'x'", "://")),
    BadInput("relay-sidecar node", ("COMMAND", "--help")),
    BadInput("relay-sidecar node instal", ("'instal'", "did you mean install?")),
    BadInput("relay-sidecar node install --listen x", ("'x'", "like 127.0.0.1:8080")),
    BadInput(
        "relay-sidecar node uninstall --data-dir {tmp}/folder", ("{tmp}/folder", "--data-dir")
    ),
    BadInput("relay-sidecar node status --data-dri x", ("--data-dri", "did you mean --data-dir?")),
    BadInput("relay-sidecar node ipam-gc --max-age old", ("'old'", "like 15s")),
    BadInput("relay-sidecar node doctor --url 10551", ("'10551'", "://")),
)

GM = (
    BadInput("sedna-gm", ("GM_", "--help")),
    BadInput("sedna-gm stauts", ("'stauts'", "did you mean status?")),
    BadInput("sedna-gm --mod relay", ("--mod", "did you mean --mode?")),
    BadInput("sedna-gm --mode passive", ("'passive'", "choose one of")),
    BadInput("sedna-gm --concurrency 0", ("0", "between 1 and 256")),
    BadInput("sedna-gm --namespace Sedna", ("'Sedna'", "lower-case")),
    BadInput("sedna-gm --namespace kube-system", ("kube-system", "--allow-kube-system true")),
    BadInput("sedna-gm --api https://h", ("https://h", "like http://")),
    BadInput("sedna-gm --mode relay --stream-listen :9000", ("--stream-listen :9000", "drop one")),
    BadInput("sedna-gm --tls-cert c", ("--tls-key", "name both")),
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
    BadInput("sedna-gm", ("GM_CONCURRENCY", "'many'"), {"GM_CONCURRENCY": "many"}),
    BadInput("sedna-gm --mode relay", ("msgspec", "extra gm"), missing="msgspec"),
    BadInput("sedna-gm status --output yaml", ("'yaml'", "json")),
    BadInput("sedna-gm status", ("GM_LISTEN", "'x'"), {"GM_LISTEN": "x"}),
    BadInput("sedna-gm livez --timeout 1h", ("'1h'", "like 2s")),
)

LC = (
    BadInput("sedna-lc", ("LC_", "--help")),
    BadInput("sedna-lc livesz", ("'livesz'", "did you mean livez?")),
    BadInput("sedna-lc --gm-adress h:1", ("--gm-adress", "did you mean --gm-address?")),
    BadInput("sedna-lc --node n --root {tmp}/folder", ("--gm-address", "like gm.sedna:9000")),
    BadInput("sedna-lc --node n --gm-address h:1 --root {tmp}/absent", ("{tmp}/absent", "mount")),
    BadInput("sedna-lc --node n --gm-address h:1", ("/rootfs", "mount")),
    BadInput("sedna-lc --node N_N --gm-address h:1", ("'N_N'", "NODENAME")),
    BadInput("sedna-lc --node n --gm-address gm", ("'gm'", "like 127.0.0.1:8080")),
    BadInput("sedna-lc --node n --root {tmp}/folder", ("GM_ADDRESS", "'gm'"), {"GM_ADDRESS": "gm"}),
    BadInput(_LC, ("BIND_PORT", "'99999'", "from 1 to 65535"), {"BIND_PORT": "99999"}),
    BadInput(f"{_LC} --bind-port {{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_LC} --dataset-interval 10ms", ("0.01s", "at least 1s")),
    BadInput(f"{_LC} --mode relay", ("--gm-address", "drop one")),
    BadInput(f"{_LC} --node-listen :9101", ("--node-listen :9101", "--token-file")),
    BadInput(f"{_LC} --token-file {{tmp}}/text", ("{tmp}/text", "--node-listen")),
    BadInput(f"{_LC} --data-dir {{tmp}}/file", ("{tmp}/file", "--data-dir")),
    BadInput("sedna-lc status", ("BIND_PORT", "'x'"), {"BIND_PORT": "x"}),
    BadInput("sedna-lc status --url http://", ("'http://'", "like http://")),
)

POOL = (
    BadInput("pool-sidecar", ("POOL_", "--help")),
    BadInput("pool-sidecar rnu", ("'rnu'", "did you mean run?")),
    BadInput("pool-sidecar contoller", ("'contoller'", "did you mean controller?")),
    BadInput("pool-sidecar run --nod n", ("--nod", "did you mean --node?")),
    BadInput("pool-sidecar --lan-address 127.0.0.1", ("--node", "NODE_NAME")),
    BadInput("pool-sidecar --node n", ("--lan-address", "HOST_IP")),
    BadInput(
        _OF_NODE,
        ("--node-kubeconfig", ":/etc/kubernetes/kubelet.conf", "No such file", "kubectl config"),
    ),
    BadInput(f"{_OF_NODE} --node-kubeconfig {{tmp}}/yaml", ("--node-kubeconfig {tmp}/yaml",)),
    BadInput(f"{_OF_NODE} --node-kubeconfig {{tmp}}/folder", ("--node-kubeconfig {tmp}/folder",)),
    BadInput(f"{_OF_NODE} --node-kubeconfig {{tmp}}/http", ("http://127.0.0.1:1", "https")),
    BadInput(
        f"{_OF_NODE} --node-kubeconfig {{tmp}}/without-certificate",
        ("{tmp}/without-certificate", "/nowhere/kubelet.pem"),
    ),
    BadInput(f"{_MEMBER} --server http://h", ("http://h", "--server")),
    BadInput(f"{_MEMBER} --server api:6443", ("'api:6443'", "://")),
    BadInput(f"{_MEMBER} --lan-address localhost", ("'localhost'", "like 10.0.7.14")),
    BadInput(f"{_MEMBER} --lan-port 70000", ("70000", "from 1 to 65535")),
    BadInput(f"{_MEMBER} --listen 0.0.0.0:10553", ("'0.0.0.0:10553'", "use 127.0.0.1")),
    BadInput(f"{_MEMBER} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(
        f"{_MEMBER} --listen 127.0.0.1:0 --proxy-listen 127.0.0.1:{{port}}",
        ("127.0.0.1:{port}", "--proxy-listen"),
    ),
    BadInput(f"{_MEMBER} {_ANYWHERE} --lan-port {{port}}", ("port {port}", "--lan-port")),
    # TEST-NET-1: no machine has it.
    BadInput(
        f"pool-sidecar --node n --lan-address 192.0.2.7 {_ANYWHERE} "
        "--node-kubeconfig {tmp}/https --data-dir {tmp}/pool",
        ("192.0.2.7", "--lan-address"),
    ),
    BadInput(
        f"{_MEMBER} --listen 127.0.0.1:10553 --proxy-listen 127.0.0.1:10553",
        ("--proxy-listen 127.0.0.1:10553", "choose another port"),
    ),
    BadInput(f"{_MEMBER} --relay https://h", ("https://h", "like http://")),
    BadInput(f"{_MEMBER} --kubelet 10248", ("'10248'", "://")),
    BadInput(f"{_MEMBER} --elector unix:/e", ("'unix:/e'", "://")),
    BadInput(f"{_MEMBER}/../file", ("--data-dir {tmp}/pool/../file", "a folder")),
    BadInput(f"{_MEMBER} --token-file {{tmp}}/empty", ("{tmp}/empty", "another file")),
    BadInput(f"{_MEMBER} --relay-token-file {{tmp}}/absent", ("{tmp}/absent", "name a token's")),
    BadInput(f"{_MEMBER} --lease-file {{tmp}}/absent/lease", ("{tmp}/absent/lease", "a folder")),
    BadInput(f"{_MEMBER} --lend false --lend-rate 1Mi", ("--lend-rate 1Mi", "drop one")),
    BadInput(f"{_MEMBER} --lend-rate 2Mi", ("2097152", "--lend-burst")),
    BadInput(f"{_MEMBER} --lend-connections 0", ("0", "at least 1")),
    BadInput(_MEMBER, ("POOL_LAN_PORT", "0"), {"POOL_LAN_PORT": "0"}),
    BadInput("pool-sidecar --node n", ("HOST_IP", "'x'"), {"HOST_IP": "x"}),
    BadInput("pool-sidecar controller", ("POOL_CONTROLLER_", "--help")),
    BadInput("pool-sidecar controller --listen 127.0.0.1:0", ("--kubeconfig", "--server")),
    BadInput(f"{_CONTROLLER} --max-dead 0", ("0", "write 1 or more")),
    BadInput(f"{_CONTROLLER} --max-dead 2/1", ("'2/1'", "like 1/3")),
    BadInput(_CONTROLLER, ("POOL_CONTROLLER_MAX_DEAD", "'x'"), {"POOL_CONTROLLER_MAX_DEAD": "x"}),
    BadInput(f"{_CONTROLLER} --max-daed 1", ("--max-daed", "did you mean --max-dead?")),
    BadInput(f"{_CONTROLLER} --pool-label a/b/c", ("'a/b/c'", "like example.com/pool")),
    BadInput(f"{_CONTROLLER} --taint-cut maybe", ("'maybe'", "true or false")),
    BadInput(f"{_CONTROLLER} --elector https://h", ("https://h", "over http")),
    BadInput(f"{_CONTROLLER} --elector 4040", ("'4040'", "://")),
    BadInput(f"{_CONTROLLER} --listen 127.0.0.1:{{port}}", ("127.0.0.1:{port}", "choose")),
    BadInput(f"{_CONTROLLER} --request-timeout 1ms", ("0.001s", "0.1s at least")),
    BadInput(f"{_CONTROLLER} --kubeconfig {{tmp}}/absent", ("{tmp}/absent", "kubectl config view")),
    BadInput(
        "pool-sidecar controller --server https://h --service-account-dir {tmp}/absent",
        ("{tmp}/absent", "--kubeconfig"),
    ),
    BadInput("pool-sidecar status --url 10553", ("'10553'", "://")),
    BadInput("pool-sidecar status --output xml", ("'xml'", "json")),
    BadInput("pool-sidecar status", ("POOL_LISTEN", "'x'"), {"POOL_LISTEN": "x"}),
    BadInput("pool-sidecar livez", ("POOL_LISTEN", "'x'"), {"POOL_LISTEN": "x"}),
    BadInput("pool-sidecar livez --timeout soon", ("'soon'", "like 2s")),
)

TOOLS = (
    BadInput("demo --mode actve", ("'actve'", "active")),
    BadInput("demo --pause soon", ("'soon'", "--help")),
    BadInput("demo --pasue 1", ("--pasue", "did you mean --pause?")),
    BadInput("demo --lease-duration 1s", ("1s", "lease")),
    BadInput("demo --containers --mode relay", ("--mode relay", "leave out one")),
    BadInput("demo --cluster minikube", ("'minikube'", "local")),
    BadInput("images --only kube", ("'kube'", "elector")),
)

ALL = (*ELECTOR, *RELAY, *GM, *LC, *POOL, *TOOLS)
