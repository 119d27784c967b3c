"""Entries of `Args:` and `Attributes:` say more than a name and a type.

An entry is left out where both say everything: `topic: The topic.`. Such entries make a reader
skip the others.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SOURCES: Final = Path(__file__).parents[1] / "src" / "penstock"
_SECTION: Final = re.compile(r"^( *)(?:Args|Attributes):\s*$")
_ENTRY: Final = re.compile(r"^( +)(\*{0,2}\w+)(?: \([^)]*\))?: (.*)$")
_SAYS_MORE: Final = re.compile(r"\d|`|\b(?:None|how|or|whether|which|who)\b", re.IGNORECASE)
_ONLY_A_NOUN: Final = re.compile(r"(?:The|Its|Their|An?) \w+\.")
_SMALL: Final = frozenset(
    re.findall(
        r"\w+",
        "a all an and any are as at be been by each for from if in is it its of on or some that "
        "the their them these this those to was which whose with",
    )
)


class Entry(NamedTuple):
    """An entry of a section: the name, its text in one line, and the lines of the docstring."""

    name: str
    text: str
    lines: range


def entries(docstring: str) -> Iterator[Entry]:
    """Yield the entries of the sections of a docstring."""
    lines = docstring.split("\n")
    indent, first, name, text = -1, 0, "", ""
    for number, line in enumerate([*lines, "end"]):
        depth = len(line) - len(line.lstrip())
        entry = _ENTRY.match(line)
        begins = entry is not None and depth == indent + 4
        if name and (begins or (line.strip() and depth <= indent)):
            yield Entry(name, text, range(first, number))
            name = ""
        if section := _SECTION.match(line):
            indent = len(section[1])
        elif line.strip() and depth <= indent:
            indent = -1
        elif begins and entry is not None and indent >= 0:
            name, text, first = entry[2], entry[3], number
        elif name and line.strip():
            text += f" {line.strip()}"


def repeats(name: str, annotation: str, text: str) -> bool:
    """Return whether the text of an entry says nothing beyond its name and its type."""
    if _SAYS_MORE.search(text):
        return False
    known_words = _words(name.replace("_", " ")) | _words(annotation)
    return _words(text) <= known_words or _ONLY_A_NOUN.fullmatch(text) is not None


def annotations(node: ast.AST) -> Mapping[str, str]:
    """Return the types of the parameters of a function, or of the attributes of a class."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        of_function = node.args
        parameters = [*of_function.posonlyargs, *of_function.args, *of_function.kwonlyargs]
        parameters += filter(None, (of_function.vararg, of_function.kwarg))
        return {
            parameter.arg: ast.unparse(parameter.annotation)
            for parameter in parameters
            if parameter.annotation
        }
    types: dict[str, str] = {}
    for part in getattr(node, "body", ()):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            types[part.target.id] = ast.unparse(part.annotation)
        elif isinstance(part, ast.FunctionDef) and part.name == "__init__":
            types = {**annotations(part), **types}
    return types


def repeated_entries(source: str) -> Iterator[tuple[int, Entry]]:
    """Yield each entry of a module that repeats name and type, with the line of its docstring."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        docstring = ast.get_docstring(node, clean=False)
        if docstring is None:
            continue
        types = annotations(node)
        for entry in entries(docstring):
            if repeats(entry.name, types.get(entry.name.strip("*"), ""), entry.text):
                yield node.body[0].lineno, entry


def _words(text: str) -> set[str]:
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()
    return {_singular(word) for word in re.findall(r"[a-z]+", parted)} - _SMALL


def _singular(word: str) -> str:
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


@pytest.mark.parametrize(
    ("name", "annotation", "text", "expected"),
    [
        ("topic", "str", "The topic.", True),
        ("topics", "Sequence[Topic]", "The topics.", True),
        ("access", "ClusterAccess", "The cluster.", True),
        ("topic_partition", "TopicPartition", "Topic and partition.", True),
        ("epoch", "int", "Or -1.", False),
        ("timeout", "float", "Seconds.", False),
        ("topic", "str", "The topic to which accepted records return.", False),
        ("offset", "int | None", "The offset, or None.", False),
        ("name", "str", "Its name in `listeners`.", False),
    ],
)
def test_an_entry_repeats_its_name_and_type(name, annotation, text, expected):
    assert repeats(name, annotation, text) is expected


def test_entries_of_several_lines_and_sections():
    docstring = """Do.

    Attributes:
        name: Its
            name.

        other: A second.

    Args:
        third: A third.

    Returns:
        not_an_entry: Because it is no argument.
    """
    assert [(entry.name, entry.text) for entry in entries(docstring)] == [
        ("name", "Its name."),
        ("other", "A second."),
        ("third", "A third."),
    ]


def test_no_entry_repeats_its_name_and_type():
    wrong = [
        f"{path.relative_to(SOURCES)}:{line + entry.lines.start} {entry.name}: {entry.text}"
        for path in sorted(SOURCES.rglob("*.py"))
        for line, entry in repeated_entries(path.read_text())
    ]
    assert wrong == []
