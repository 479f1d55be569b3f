"""What the store raises, and why."""


class StoreUnavailable(Exception):
    """The disk does not take it: full, locked, read-only. Nothing changed."""


class OutboxFull(StoreUnavailable):
    """So much waits for GM that no more is taken; what waits already is safe."""


class NewerSchema(Exception):
    """A later release wrote it: nothing is wrong with it."""


class Damaged(Exception):
    """What is on disk cannot be gone on with. A new process sets it aside and begins anew."""


class DirectoryInUse(Exception):
    """Another LC writes there."""
