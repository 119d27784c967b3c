"""Print a sample of mutants, a JSON object on each line. cosmic-ray finds the places and writes them.

It runs in the environment of cosmic-ray, which has nothing of Penstock.

A place is a position in the code and a kind of change, such as another comparison. Each place counts
once, whatever number of other operators could stand there. The sample has the places with the
smallest hashes, so that a change of the code leaves all other places in the sample.
"""

import argparse
import ast
import difflib
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path
from typing import Final, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

# Other replacements would often be the same: `is` and `==` between members of an enumeration.
COMPARISONS: Final = (
    ("Eq", "NotEq"),
    ("NotEq", "Eq"),
    ("Lt", "LtE"),
    ("Lt", "GtE"),
    ("LtE", "Lt"),
    ("LtE", "Gt"),
    ("Gt", "GtE"),
    ("Gt", "LtE"),
    ("GtE", "Gt"),
    ("GtE", "Lt"),
    ("Is", "IsNot"),
    ("IsNot", "Is"),
)
ARITHMETIC: Final = (
    ("Add", "Sub"),
    ("Sub", "Add"),
    ("Mul", "FloorDiv"),
    ("Div", "Mul"),
    ("FloorDiv", "Mul"),
    ("Mod", "FloorDiv"),
    ("Pow", "Mul"),
    ("RShift", "LShift"),
    ("LShift", "RShift"),
    ("BitOr", "BitAnd"),
    ("BitAnd", "BitOr"),
    ("BitXor", "BitAnd"),
)
KINDS: Final = {
    "comparison": [f"ReplaceComparisonOperator_{old}_{new}" for old, new in COMPARISONS],
    "arithmetic": [f"ReplaceBinaryOperator_{old}_{new}" for old, new in ARITHMETIC],
    "unary": [f"ReplaceUnaryOperator_Delete_{old}" for old in ("Not", "USub", "Invert")],
    "boolean": ["ReplaceTrueWithFalse", "ReplaceFalseWithTrue"],
    "connective": ["ReplaceAndWithOr", "ReplaceOrWithAnd"],
    "condition": ["AddNot"],
    "loop": ["ZeroIterationForLoop", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak"],
    "exception": ["ExceptionReplacer"],
    "number": ["NumberReplacer"],
    "decorator": ["RemoveDecorator"],
}
# Without these, code does the same or takes longer.
UNSEEN_DECORATORS: Final = frozenset({"override", "final", "overload", "cache", "dataclass"})
DURATIONS: Final = ("_S", "_MS")
"""Constants in seconds and milliseconds: no test depends on the time, so any value does."""

Position = tuple[int, int]


class Mutant(NamedTuple):
    """A change of the code at a place; lines count from 1, columns from 0."""

    kind: str
    start: Position
    end: Position
    operator: str
    occurrence: int


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        return _name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_union(node: ast.expr) -> bool:
    """Return whether an expression joins classes, as in the alias of a type."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_union(node.left) and _is_union(node.right)
    if isinstance(node, ast.Subscript):
        return True
    name = _name(node)
    return node.__class__ is not ast.Call and name[:1].isupper() and not name.isupper()


def _without_effect(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield the parts of a node that change no result.

    Annotations, aliases and protocols do nothing when the code runs. The conditions of a bare
    `yield`, and the counters in them, only decide how often a long computation lets others run. What a `zip` takes has one
    length, whether it is strict or not.
    """
    match node:
        case ast.arg():
            yield node.annotation
        case ast.AnnAssign():
            yield node.annotation
            if _name(node.annotation) == "TypeAlias" or _name(node.target).endswith(DURATIONS):
                yield node.value
        case ast.Assign(value=ast.BinOp() as value) if _is_union(value):
            yield value
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield node
        case ast.If(body=[ast.Expr(value=ast.Yield(value=None))], orelse=[]):
            yield node.test
        case ast.For(iter=ast.Call(func=ast.Name(id="enumerate"), args=[_, start])) if any(
            isinstance(found, ast.Yield) and found.value is None for found in ast.walk(node)
        ):
            yield start
        case ast.Call() if _name(node) in {"cast", "TypeVar", "NewType"}:
            yield node
        case ast.Call(func=ast.Name(id="zip")):
            yield from (keyword.value for keyword in node.keywords)
        case ast.ClassDef(bases=[*_, ast.Name(id="Protocol")]):
            yield node
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield getattr(node, "returns", None)
            yield from (found for found in node.decorator_list if _name(found) in UNSEEN_DECORATORS)


def _ranges_without_effect(tree: ast.AST) -> list[tuple[Position, Position]]:
    parts = [part for node in ast.walk(tree) for part in _without_effect(node) if part]
    # cosmic-ray's decorators begin with their @.
    return [
        ((part.lineno, max(0, part.col_offset - 1)), (part.end_lineno, part.end_col_offset))
        for part in parts
    ]


def mutants(source: str) -> list[list[Mutant]]:
    """Return all mutants of a file, by place."""
    left_out = _ranges_without_effect(ast.parse(source))
    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for kind, operators in KINDS.items():
        for name in operators:
            operator = get_operator(f"core/{name}")()
            positions = (at for node in nodes for at in operator.mutation_positions(node))
            for occurrence, (start, end) in enumerate(positions):
                if not any(first <= start < last for first, last in left_out):
                    found.append(Mutant(kind, start, end, name, occurrence))
    found.sort()
    return [list(group) for _, group in groupby(found, key=lambda mutant: mutant[:3])]


def ranked(path: str, source: str, seed: str) -> Iterator[tuple[bytes, str, Mutant]]:
    """Yield for each place its rank in the order of a seed, and one of its mutants."""
    lines = source.splitlines()
    seen: Counter[str] = Counter()
    for place in mutants(source):
        line, column = place[0].start
        text = lines[line - 1]
        key = f"{seed} {path} {place[0].kind} {text.strip()} {column - len(text) + len(text.lstrip())}"
        seen[key] += 1
        rank = hashlib.blake2b(f"{key} {seen[key]}".encode(), digest_size=8).digest()
        yield rank, path, place[rank[0] % len(place)]


def statement_lines(source: str, line: int) -> list[int]:
    """Return the lines of the statement at a line; of a compound statement, those before its block."""
    best = range(line, line + 1)
    size = sys.maxsize
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        block = getattr(node, "body", None)
        first = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
        decorators = getattr(node, "decorator_list", [])
        first = min([first, *(found.lineno for found in decorators)])
        last = max(first, block[0].lineno - 1) if block else node.end_lineno or first
        if first <= line <= last and last - first < size:
            best, size = range(first, last + 1), last - first
    return list(best)


def described(path: str, mutant: Mutant) -> dict[str, object] | None:
    """Return a mutant with its source and its difference from the code, or None if it is no Python."""
    source = Path(path).read_text()
    operator = get_operator(f"core/{mutant.operator}")()
    mutated = mutate_code(source, operator, mutant.occurrence)
    try:
        ast.parse(mutated)
    except SyntaxError:
        return None
    difference = difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=0, lineterm="")
    return {
        "path": path,
        "line": mutant.start[0],
        "lines": statement_lines(source, mutant.start[0]),
        "kind": mutant.kind,
        "source": mutated,
        "difference": [text for text in list(difference)[2:] if not text.startswith("@@")],
    }


def main() -> None:
    """Print a sample of the mutants of the files of some folders."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--sample", type=int, required=True)
    arguments.add_argument("--seed", required=True)
    arguments.add_argument("--without", type=Path, required=True)
    arguments.add_argument("folders", nargs="+", type=Path)
    given = arguments.parse_args()
    files = sorted(
        file
        for folder in given.folders
        for file in ([folder] if folder.is_file() else folder.rglob("*.py"))
        if given.without not in file.parents
    )
    found = [place for file in files for place in ranked(str(file), file.read_text(), given.seed)]
    print(len(found))
    written = (described(path, mutant) for _, path, mutant in sorted(found))
    for description in islice(filter(None, written), given.sample):
        print(json.dumps(description))


main()
