"""`--keep-secrets` on a node: answers to TokenRequest, replayed to kubelet while the API server
cannot be reached. Bearer tokens of callers are not here but in `core/access`.

feature       the door: what the relay opens; the request of a client, passed on or answered
kept_tokens   the answers, sealed into the journal
kept_answers  which answer is kept, deleted, replayed; pure
"""
