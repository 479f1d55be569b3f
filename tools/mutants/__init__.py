"""Faults of the product, and the tests that find them: `make mutants`.

`mutants.toml` has each fault as a replacement in one file, with the tests that must fail. `table`
reads it, `overlay` copies the package with the fault to a temporary directory, `verdict` runs in
pytest and reports what failed and how, `__main__` runs all of them and prints what survived.
"""
