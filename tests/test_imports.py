"""No module imports itself through other modules, not even for types."""

from collections.abc import Iterator

import grimp


def circles(graph: grimp.ImportGraph) -> Iterator[list[str]]:
    """Yield the modules that import each other (Tarjan's strongly connected components)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_ones: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        numbers[module] = lowest[module] = len(numbers)
        open_ones.append(module)
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            if imported not in numbers:
                yield from visit(imported)
                lowest[module] = min(lowest[module], lowest[imported])
            elif imported in open_ones:
                lowest[module] = min(lowest[module], numbers[imported])
        if lowest[module] == numbers[module]:
            at = open_ones.index(module)
            found = open_ones[at:]
            del open_ones[at:]
            if len(found) > 1:
                yield sorted(found)

    for module in sorted(graph.modules):
        if module not in numbers:
            yield from visit(module)


def test_there_are_no_import_circles():
    assert list(circles(grimp.build_graph("penstock", cache_dir=None))) == []


def test_a_circle_is_found():
    graph = grimp.ImportGraph()
    for letter in "abcd":
        graph.add_module(letter)
    for importer, imported in ("ab", "bc", "cb", "cd"):
        graph.add_import(importer=importer, imported=imported)
    assert list(circles(graph)) == [["b", "c"]]
