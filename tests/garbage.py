"""Spare the garbage collector what was collected: it lives until the end.

Ten thousand tests and the modules that they import are millions of objects, which each full
collection would visit again, during pytest's collection and between any two tests.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without garbage collections, and leave the tests out of later collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
