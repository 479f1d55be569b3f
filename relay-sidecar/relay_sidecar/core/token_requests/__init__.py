"""Answers to TokenRequest that are replayed to kubelet while the API server cannot be reached.

Bearer tokens of callers are not here but in `core/access`.

token_request     from a request to the key of its answer
kept_answers      which answer is kept, deleted, replayed, as a pure machine
persisted_answer  a kept answer as bytes
protobuf          the wire format, strictly
"""
