"""Prometheus text of one elector, computed at the scrape.

Names are client-go's where it has them (`leader_election_*`), ours otherwise. See
https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

from .elector import Elector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(elector: Elector, now: float) -> str:
    status = elector.status(now)
    view = status.view
    name = {"name": status.name}
    contact = -1.0 if view.last_contact is None else now - view.last_contact
    lines = [
        *_metric(
            "leader_election_master_status",
            "gauge",
            "1 if this process holds the lease now, else 0.",
            [(name, float(status.is_leader))],
        ),
        *_metric(
            "leader_election_slowpath_total",
            "counter",
            "Reads of the lease (renewals that did not go through the fast path).",
            [(name, float(elector.api_requests.get(("get", "sent"), 0)))],
        ),
        *_metric(
            "elector_valid_seconds",
            "gauge",
            "Seconds for which the leadership is proven; 0 if not leader.",
            [(name, status.remaining)],
        ),
        *_metric(
            "elector_last_contact_seconds",
            "gauge",
            "Seconds since the API server answered; -1 before the first time.",
            [(name, contact)],
        ),
        *_metric(
            "elector_eligible",
            "gauge",
            "1 if the health gate is open and the API server was reached.",
            [(name, float(status.is_eligible))],
        ),
        *_metric(
            "elector_lease_transitions",
            "gauge",
            "leaseTransitions of the lease as last seen.",
            [(name, float(view.lease_transitions or 0))],
        ),
        *_metric(
            "elector_terms_total",
            "counter",
            "Terms of leadership begun by this process.",
            [(name, float(elector.terms))],
        ),
        *_metric(
            "elector_api_requests_total",
            "counter",
            'API requests by verb; result "sent" counts all, others the failures.',
            [
                ({**name, "verb": verb, "result": result}, float(count))
                for (verb, result), count in sorted(elector.api_requests.items())
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def _metric(
    name: str, kind: str, text: str, samples: list[tuple[dict[str, str], float]]
) -> list[str]:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{told}}} {value:.15g}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
