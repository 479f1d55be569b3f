"""All requests to upstream: `reflector/` (list+watch), probes, requests that are passed on, and
`documents/` (discovery and OpenAPI)."""
