"""The tree of exceptions in the docstring of `penstock.errors` is the tree of the classes."""

import importlib
import pkgutil
import re

import pytest

import penstock
from penstock import errors

NOT_IMPORTED = ("__main__", ".kerberos")
"""The program, and what needs the package `gssapi`."""


def drawn():
    """Return the pairs of class and base in the drawing."""
    pairs, path = set(), []
    for line in errors.__doc__.splitlines():
        node = re.match(r"    (?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(  |$)", line)
        if node is None:
            continue
        depth = len(node["indent"]) // 4
        path[depth:] = [node["name"]]
        if depth:
            pairs.add((node["name"], path[depth - 1]))
    return pairs


def defined():
    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.endswith(NOT_IMPORTED):
            importlib.import_module(module.name)
    pairs, unvisited = set(), [Exception]
    while unvisited:
        base = unvisited.pop()
        for subclass in base.__subclasses__():
            unvisited.append(subclass)
            if subclass.__module__.startswith("penstock."):
                pairs.add((subclass.__name__, base.__name__))
    return pairs


@pytest.mark.system  # imports all modules, those for Spark among them
def test_the_drawing_is_the_tree_of_the_classes():
    assert drawn() == defined()
