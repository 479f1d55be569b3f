"""The relay's streams and objects on disk: a restart finds them again, kill -9 included.

records   what is given to the journal, and what it returns after a restart
journal   the asyncio side: who waits, what happens while the disk fails
database  the journal on its thread: its form, transactions, checkpoints, failures
tables    what a record changes; checksums
rows      the tables on disk; reading them back
sealing   Secrets and tokens, encrypted before they reach the journal

The files, the thread and the checkpoints themselves are `edge_sidecars.walstore`'s.
"""
