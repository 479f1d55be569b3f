"""One SQLite database in WAL mode, written by one thread of one process.

Its owners (the relay's journal, LC's store, the local API server's storage) bring their tables and
what a row means. Here is what becomes of the file when the process is killed, when the disk is
full, read-only or hangs, and when the file is damaged.

files         who reads and writes the files of a database; what is set aside
database      one open database: its form, transactions, what SQLite's errors mean
checkpointer  moving the WAL into the file, on a thread of its own; giving space back
disk_thread   the thread that touches the disk; what waits for it becomes one transaction
"""
