"""From the rules that upstream lists to the questions that decide."""

from collections.abc import Mapping

from edge_sidecars.apimachinery.resources import ResourceName
from relay_sidecar.core.access.authorizer import MAX_QUESTIONS, Attributes, questions, rules_of

WIDGETS = ResourceName("example.com", "v1", "widgets")


def asked(
    *rules: Mapping[str, list[str]], known: list[ResourceName] | None = None
) -> list[Attributes]:
    found = rules_of({"resourceRules": list(rules), "incomplete": False})
    return questions(found, known or [], namespace="kube-flannel")


def test_reads_of_a_rule_are_asked_about_in_all_namespaces_and_writes_are_not() -> None:
    rule = {"verbs": ["get", "patch"], "apiGroups": [""], "resources": ["pods", "pods/status"]}
    assert asked(rule) == [Attributes(verb="get", version="v1", resource="pods")]


def test_a_rule_with_names_is_asked_about_by_name_in_the_accounts_namespace() -> None:
    names = {"resourceNames": ["cfg"], "resources": ["configmaps"]}
    rule = {"verbs": ["get", "list"], "apiGroups": [""], **names}
    wanted = Attributes(
        verb="get", version="v1", resource="configmaps", namespace="kube-flannel", name="cfg"
    )
    assert asked(rule) == [wanted]


def test_other_resources_are_asked_about_where_the_relay_has_something_of_them() -> None:
    rule = {"verbs": ["watch"], "apiGroups": ["*"], "resources": ["widgets"]}
    assert asked(rule) == []
    wanted = Attributes(verb="watch", group="example.com", version="v1", resource="widgets")
    assert asked(rule, known=[WIDGETS]) == [wanted]


def test_who_may_do_all_is_asked_about_a_bounded_part_the_usual_first() -> None:
    many = [ResourceName("example.com", "v1", f"kind-{number}") for number in range(100)]
    found = asked({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, known=many)
    assert len(found) == MAX_QUESTIONS
    assert found[:3] == [
        Attributes(verb=verb, version="v1", resource="nodes") for verb in ("get", "list", "watch")
    ]
