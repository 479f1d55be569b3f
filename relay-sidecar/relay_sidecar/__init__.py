"""The relay: the Kubernetes API on localhost, cached, also while its upstream is unreachable.

Start in `core.stream`; `web.api` decides who answers a request. `pool`, `endpoint_view` and
`kept_tokens` are rooms of their own behind a flag each.
"""
