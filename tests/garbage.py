"""Python's garbage collector and thousands of tests.

While tests are collected nothing is garbage, and the collector would walk all that was read again
and again: a third of the time. What is there then stays until the end: no later walk meets it.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
