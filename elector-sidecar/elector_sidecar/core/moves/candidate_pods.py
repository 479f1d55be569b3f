"""Whether a pod can take a Lease, by what the API server says of the pod. Pure."""

# A pod that has it takes part in the election for the Lease of this name.
LEASE_ANNOTATION = "edge-sidecars.io/lease"


def unfit(pod: object, lease: str) -> str:
    """Why this pod cannot take the Lease `lease`, in words; "" if it can for all that is known."""
    if not isinstance(pod, dict):
        return ""
    metadata, status = pod.get("metadata") or {}, pod.get("status") or {}
    name = metadata.get("name")
    named = (metadata.get("annotations") or {}).get(LEASE_ANNOTATION)
    if named is not None and named != lease:
        return f"pod {name} is a candidate for {named}, by its annotation {LEASE_ANNOTATION}"
    if metadata.get("deletionTimestamp") is not None:
        return f"pod {name} is being deleted"
    if status.get("phase") != "Running":
        return f"pod {name} does not run: its phase is {status.get('phase')}"
    return ""
