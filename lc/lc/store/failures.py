"""What the store raises, besides `Damaged` and `DirectoryInUse` of `edge_sidecars.walstore`."""


class StoreUnavailable(Exception):
    """The disk does not take it: full, locked, read-only. Nothing changed."""


class OutboxFull(StoreUnavailable):
    """So much waits for GM that no more is taken; what waits already is safe."""


class NewerSchema(Exception):
    """A later release wrote it: nothing is wrong with it."""
