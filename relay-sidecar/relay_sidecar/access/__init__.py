"""Who may read through the relay what is cached.

opened               which of these the flags ask for
admission            what the web layer asks, and what it learns about a caller
own                  everyone acts with the relay's rights: on loopback
caller               each caller with the rights of its own token, which upstream decides about: it
                     is asked once for all who ask the same
node                 a node by its client certificate, others as `caller`
kubelet_process      whose a connection is, by its process
access_reviews       how upstream is asked
restart_reviews      what callers on a node may read when they start again
authorization_store  what upstream said, persisted
"""
