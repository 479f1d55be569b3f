"""What files of Kubernetes hold: JSON, or YAML that could be JSON.

As sigs.k8s.io/yaml reads them: JSON is read as such, also where YAML 1.1 does not take it (tabs,
long keys); what looks like a time is the text that it is. JSON needs no package, YAML needs PyYAML,
which an image for pods does not have.
"""

import json


class MissingPackage(ValueError):
    """PyYAML is not installed."""


def parsed(text: str) -> object:
    """Raises ValueError."""
    # Of Windows; neither JSON nor Go's YAML minds it.
    text = text.removeprefix("\ufeff")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _yaml(text)


def _yaml(text: str) -> object:
    try:
        from yaml import SafeLoader, YAMLError, load
    except ImportError as error:
        raise MissingPackage(
            "it is YAML, for which the Python package PyYAML is missing: install the extra "
            "kubeconfig (pip install '.[kubeconfig]' in a checkout), or write it as JSON"
        ) from error

    class Texts(SafeLoader):
        """YAML without times."""

    Texts.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in found if not tag.endswith(":timestamp")]
        for first, found in SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        content: object = load(text, Texts)
    except (YAMLError, RecursionError, AttributeError, LookupError) as error:
        # The last two: of a value that its explicit tag does not fit, like `!!bool x`.
        raise ValueError(f"it is neither JSON nor YAML: {error}") from error
    return content
