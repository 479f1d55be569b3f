"""What the differential tests ask: selectors, options, paths and Accept headers.

Most of it is well-formed and meets objects; the rest is nearly so, since nobody finds the edges of
a grammar with noise.
"""

from __future__ import annotations

from functools import cache
from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from tests.integration.relay.reads.assortment import AWKWARD, LABEL_VALUES, LABELS, Kind

_BLANKS = st.sampled_from(("", "", "", " ", "\t", " \n"))
_NOISE = (*"=!()<>,\\ \t\n\0/-._aZ09é\"'&|;+%", "==", "in ", "notin(", "x" * 64, "example.com/")

FIELD_VALUES = (
    *("", "0", "1", "2", "5", "7", "-5", "1000000", str(2**53 + 1), "true", "false", "True"),
    *("p0", "p1", "n0", "n1", "s1", "w1", "g1", "u1", "A", "B", "red", "main", AWKWARD),
    *("Pending", "Running", "Failed", "Always", "Never", "default", "default-scheduler", "other"),
    *("Opaque", "example.com/a", "bootstrap", "None", "ClusterIP", "NodePort", "ExternalName"),
    *("10.0.0.1", "fd00::1", "Pod", "Node", "Normal", "Warning", "kubelet", "example.com/c", "v1"),
    *("spec.containers{main}", "d0.example.com", "Active", "a/b"),
)
UNKNOWN_FIELDS = (
    "foo",
    "",
    "name",
    "spec.foo",
    "metadata.labels",
    " metadata.name",
    "status.phase",
)


@st.composite
def _edited(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """Now and then with something inserted, or taken out."""
    text = draw(texts)
    for _ in range(draw(st.sampled_from((0, 0, 0, 0, 1, 2)))):
        at = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(("", *_NOISE)))
        text = text[:at] + piece + text[at + (not piece) :]
    return text


@st.composite
def _label_requirements(draw: st.DrawFn) -> str:
    def blank() -> str:
        return draw(_BLANKS)

    def value() -> str:
        return draw(st.sampled_from(LABEL_VALUES))

    key = draw(st.sampled_from(LABELS))
    operator = draw(st.sampled_from(("", "!", "=", "==", "!=", ">", "<", "in", "notin")))
    if operator in ("", "!"):
        return f"{operator}{blank()}{key}"
    if operator in ("in", "notin"):
        values = (f"{blank()}{value()}{blank()}" for _ in range(draw(st.integers(0, 3))))
        return f"{key} {blank()}{operator}{blank()}({','.join(values)})"
    return f"{key}{blank()}{operator}{blank()}{value()}"


label_selectors = _edited(st.lists(_label_requirements(), max_size=3).map(",".join))


@cache
def field_selectors(kind: Kind) -> st.SearchStrategy[str]:
    def term(path: str, operator: str, value: str) -> str:
        return path + operator + "".join(f"\\{c}" if c in ",=\\" else c for c in value)

    values = (*FIELD_VALUES, *{name for item in kind.items[:20] for name in item.key})
    # Many more known fields than unknown ones, which end the question.
    paths = st.sampled_from((*kind.fields * 8, *UNKNOWN_FIELDS))
    terms = st.builds(term, paths, st.sampled_from(("=", "==", "!=")), st.sampled_from(values))
    return _edited(st.lists(terms, max_size=3).map(",".join))


def _maybe(*values: str) -> st.SearchStrategy[str | None]:
    return st.none() | st.sampled_from(values)


# No version that is too large: for that kube-apiserver waits three seconds.
options = st.fixed_dictionaries(
    {
        "watch": _maybe("", "1", "true", "false", "0", "FALSE", "x"),
        "resourceVersion": _maybe("", "0", "1", "00", "abc", "-1", "+1", "1.0", "1_0", "9" * 20),
        "resourceVersionMatch": _maybe("", "Exact", "NotOlderThan", "exact", 'a"<b>', "é"),
        "limit": _maybe("", "0", "1", "-1", "abc", "+3", "1e3", "0x1", str(2**63)),
        "timeoutSeconds": _maybe("", "1", "-1", "abc", "1.5"),
        "continue": _maybe("", "abc", "!!"),
        "sendInitialEvents": _maybe("", "true", "false", "0"),
        "allowWatchBookmarks": _maybe("", "true", "false", "x"),
        "labelSelector": st.none() | label_selectors,
        "fieldSelector": _maybe("", "=", "metadata.name=c1", "metadata.name", r"metadata.name=\a"),
    }
).map(lambda told: urlencode({name: value for name, value in told.items() if value is not None}))

_SEGMENTS = (
    *("api", "apis", "v1", "apps", "watch", "proxy", "namespaces", "default", "pods", "nodes"),
    *("status", "finalize", "log", "a", "b:c", "", "%2e", "a%2Fb", "%C3%A9", "version", "healthz"),
)
_ROOTS = ("/api/v1", "/apis/apps/v1", "/api/v1/namespaces/a", "/apis/apps/v1/namespaces/a", "/api")
_QUERIES = (
    *("watch=1", "watch=0", "watch", "fieldSelector=metadata.name%3Dx", "labelSelector=%21%21"),
    *("fieldSelector=metadata.name%3Dx%2Fy", "fieldSelector=metadata.name!%3Dx", "limit=x", "a;b"),
)
targets = st.builds(
    lambda root, segments, end, query: "/".join((root, *segments)) + end + "?" + "&".join(query),
    st.sampled_from(_ROOTS),
    st.lists(st.sampled_from(_SEGMENTS), max_size=5),
    st.sampled_from(("", "", "", "/")),
    st.lists(st.sampled_from(_QUERIES), max_size=3),
)

_MEDIA_TYPES = (
    *("application/json", "application/json", "application/yaml", "application/*", "*/*", "*"),
    *("application/vnd.kubernetes.protobuf", "application/cbor", "text/html", "json", "a/b/c"),
)
_PARAMETERS = (
    *("as=Table", "as=PartialObjectMetadataList", "as=PodList"),
    *("g=meta.k8s.io", "g=meta.k8s.io", "g=apps", "v=v1", "v=v1", "v=v1beta1", "v=v2", "sv=v1"),
    *("q=0.5", "q=0.9", "q=1", "q=0", "q=x", "stream=watch", "stream=x", "charset=utf-8", "a=b=c"),
)
_TRANSFORMS = tuple(
    f";as={name};g=meta.k8s.io;v={version}"
    for name in ("Table", "PartialObjectMetadataList")
    for version in ("v1", "v1beta1")
)
clauses = st.builds(
    lambda media, transform, parameters, blank: (
        blank + media + transform + "".join(f";{blank}{each}" for each in parameters)
    ),
    st.sampled_from(_MEDIA_TYPES),
    st.sampled_from(("", "", *_TRANSFORMS)),
    st.lists(st.sampled_from(_PARAMETERS), max_size=3),
    st.sampled_from(("", "", " ")),
)


def target(path: str, **parameters: str) -> str:
    """A percent-encoded target; empty parameters are left out."""
    told = {name: value for name, value in parameters.items() if value}
    return f"{quote(path)}?{urlencode(told)}" if told else quote(path)
