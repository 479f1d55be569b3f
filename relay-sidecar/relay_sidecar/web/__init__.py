"""What clients of the relay talk to: the Kubernetes API, and the relay's own endpoints.

A write, from the socket to its answer:

    listener ─ api ─ access (own | caller) ─ upstream/proxy ─ upstream/messages
      ─ kubeapi (to the API server and back)
      ─ upstream/link_probe ─ core/link            the link answered
      ─ reads/writes ─ reads/freshness ─ core/min_resource_version, streams/seen_objects   read your
        writes
      ─ journal                                    persisted before it is answered

A LIST that a stream answers, from the socket to its answer:

    api ─ access (own | caller)                    who asks, and whether that is allowed
      ─ reads (reads, lists, selection)            what is asked for
      ─ streams (streams, readiness, stream)       which stream has it
      ─ upstream/reflector (reflectors, reflector, stream_steps) ─ core/stream/reflection, core/link
        whether that stream is live
      ─ reads/freshness ─ core/min_resource_version   whether it is as new as what was handed out
      ─ streams/list_encoder ─ web/responses       the bytes, encoded once for all readers

One without a version is proved first: reads/upstream_lists, rounds, list_proofs ask upstream for
names and versions alone.

A watch event, from upstream to a client's socket:

    kubeapi ─ upstream/reflector (source, reflector, stream_steps) ─ core/stream/reflection
      ─ upstream/link_probe ─ core/link            the link answered
      ─ journal (journal, database, tables) ─ walstore   persisted before it is delivered
      ─ streams/stream ─ streams/fanout ─ the sockets of all watchers

`reads/watch_session` opens and ends a client's watch; between, events do not pass through it.
"""
