"""What a label's key and value may look like, in kube-apiserver's words.

Source: k8s.io/apimachinery v0.36, pkg/api/validate/content/kube.go, dns.go and errors.go. Lengths
are in bytes.
"""

import re

NAME_LENGTH = 63
PREFIX_LENGTH = 253

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = f"{_DNS_LABEL}(\\.{_DNS_LABEL})*"
_NAME_FORM, _VALUE_FORM, _SUBDOMAIN_FORM = map(re.compile, (_NAME, _VALUE, _SUBDOMAIN))

_ENDS = "and must start and end with an alphanumeric character"
_CHARACTERS = f"consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_NAME_RULE = (
    f"must {_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', "
    f"regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or {_CHARACTERS} (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE}')"
)
_PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', {_ENDS} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def key_faults(key: str) -> str:
    """IsLabelKey: what is wrong with it, joined by semicolons; empty where nothing is."""
    *prefix, name = key.split("/")
    if len(prefix) > 1:
        return (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        )
    faults = _prefix_faults(prefix[0]) if prefix else []
    if not name:
        faults.append("name part must be non-empty")
    elif _is_long(name, NAME_LENGTH):
        faults.append(f"name part must be no more than {NAME_LENGTH} bytes")
    if not _NAME_FORM.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return "; ".join(faults)


def value_faults(value: str) -> str:
    """IsLabelValue: what is wrong with it, joined by semicolons; empty where nothing is."""
    faults = []
    if _is_long(value, NAME_LENGTH):
        faults.append(f"must be no more than {NAME_LENGTH} bytes")
    if not _VALUE_FORM.fullmatch(value):
        faults.append(_VALUE_RULE)
    return "; ".join(faults)


def _prefix_faults(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    faults = []
    if _is_long(prefix, PREFIX_LENGTH):
        faults.append(f"prefix part must be no more than {PREFIX_LENGTH} bytes")
    if not _SUBDOMAIN_FORM.fullmatch(prefix):
        faults.append(f"prefix part {_PREFIX_RULE}")
    return faults


def _is_long(text: str, length: int) -> bool:
    return len(text.encode()) > length
