"""SQLite in WAL mode: the files of a database."""
