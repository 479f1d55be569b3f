"""What clients of the relay talk to: the Kubernetes API, and the relay's own endpoints.

A LIST that a stream answers:

    client ─► api ─► access/admission                who asks, and whether that is allowed
               │
               ├─► reads/selection                   what is asked for
               ├─► reads/lists ─► streams ─► stream  which stream has it, and whether it is live:
               │       │            reflector/stream_steps ─► core/stream/reflection, core/link
               │       └─► reads/freshness           whether it is as new as what was handed out,
               │                                     and how old the answer is (core/caching)
               └─◄ responses ◄── streams/list_encoder    encoded once for all readers

Without a version it is proved first: reads/lists asks upstream for names and versions alone
(reads/rounds: once for all readers that come), or reads/upstream_lists passes the LIST on.

A watch event, from upstream to the sockets of all watchers:

    upstream ─► reflector/source ─► reflector/reflector ─► reflector/stream_steps
                  │ link_probe, core/link: the link answered   │
                  ▼                                            ├─► journal: persisted first
                (verdict)                                      ├─► core/stream/reflection: cursor
                                                               ▼
                            sockets ◄── streams/fanout ◄── streams/stream

`reads/watch_session` opens and ends a client's watch; between, events do not pass through it.

A write: api ─► upstream/proxy ─► upstream ─► reads/writes (read your writes: freshness,
streams/seen_objects) ─► journal ─► client.
"""
