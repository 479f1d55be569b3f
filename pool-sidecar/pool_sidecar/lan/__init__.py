"""Members among each other: TLS with pinned certificates, the state of each, lent links.

`certificate` and `tls`: who is at the other end. `listener` serves peers, `client` asks them.
`tunnel`: a lent link, and what ends it; `standstill`: an event loop that notices that it was frozen
before it reads a byte. `local_proxy`: how processes of this node get to a lent link.
"""
