"""No module imports itself through other modules, not even for types."""

import re
from collections.abc import Iterator
from pathlib import Path

import grimp

NATIVE = Path(__file__).parents[1] / "native" / "src"


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


def native_graph() -> grimp.ImportGraph:
    """Return which files in Rust name which others, but for the tests in them."""
    files = {
        tuple(
            re.sub(r"/(mod|lib)$", "", f"/{file.relative_to(NATIVE).with_suffix('')}").split("/")
        ): file
        for file in NATIVE.rglob("*.rs")
    }
    graph = grimp.ImportGraph()
    for module, file in files.items():
        code, _, _ = re.sub(r"//.*", "", file.read_text()).partition("#[cfg(test)]\nmod tests")
        for path in re.findall(r"\b(?:crate|super)(?:::\w+)+", code):
            steps = path.split("::")
            above = steps.count("super")
            start = module[:-above] if above else ("",)
            named = (*start, *steps[above or 1 :])
            while named not in files:
                named = named[:-1]
            if named != module:
                graph.add_import(importer=".".join(module), imported=".".join(named))
    return graph


def test_there_are_no_circles_of_files_in_rust():
    graph = native_graph()
    assert {".lane.connection", ".ring.sender"} <= graph.modules
    assert list(circles(graph)) == []
