"""Pure: which answers to TokenRequest are kept.

kept_answers      which answer is kept, deleted, replayed, as a pure machine
persisted_answer  a kept answer as bytes
"""
