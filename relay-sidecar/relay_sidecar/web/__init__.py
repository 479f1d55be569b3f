"""What clients of the relay talk to: the Kubernetes API, and the relay's own endpoints.

A write, from the socket to its answer:

    listener ─ api ─ access (own | caller) ─ writes ─ upstream/proxy ─ upstream/client_request
      ─ kubeapi (to the API server and back)
      ─ upstream/link_probe ─ core/link            the link answered
      ─ upstream/buffered_response                 what upstream said
      ─ reads/freshness ─ core/min_resource_version, streams/seen_objects   read your writes
      ─ streams/stream_journal ─ journal           persisted before it is answered

A watch event, from upstream to a client's socket:

    kubeapi ─ upstream/reflector (source, watch_phase, stream_steps) ─ core/reflection
      ─ streams/stream_journal ─ journal           persisted before it is delivered
      ─ streams/stream ─ streams/view ─ streams/fanout ─ the sockets of all watchers

`reads/watch_session` opens and ends a client's watch; between, events do not pass through it.
"""
