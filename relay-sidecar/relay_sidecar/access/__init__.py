"""Who may read through the relay what is cached.

asking               those that ask upstream about callers, where the flags ask for them
admission            what the web layer asks about a caller, and what the other rooms are given of
                     it; `--access own`, for loopback
caller               each caller with the rights of its own token, which upstream decides about: it
                     is asked once for all who ask the same
node                 a node by its client certificate, others as `caller`
kubelet_process      whose a connection is, by its process
reviews              how upstream is asked, and what a node's callers may read at a restart
authorization_store  what upstream decided, persisted
"""
