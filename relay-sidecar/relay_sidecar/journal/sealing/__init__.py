"""Secrets and tokens, encrypted before they reach the journal: only with `--keep-secrets`.

sealer    the data key of one journal: seals and unseals its rows
authentic_rows  rows about rights, which are not sealed: only this relay can have written them
key_file  the key of `--keep-secrets`, which wraps the data key: which bytes are one, where it may
          lie, who may read it, and what a sealed row is bound to
xaes_gcm  the cipher, the only module that imports pycryptodome
"""
