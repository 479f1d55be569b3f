"""Everything that is asked of upstream: list+watch, probes, requests that are passed on."""
