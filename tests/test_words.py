"""Plain English in the pages that were written for strangers: words that may not come back.

A page joins `PAGES` when it is free of them. Help, messages, log events, names and docstrings of
`src/penstock`, the tests and the benchmarks are free of them, too; so are comments of tests and
benchmarks. `make lint` runs this.
"""

import ast
import functools
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from penstock.cli import COMMANDS, complete_parser

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    "CONTRIBUTING.md",
    "README.md",
    "docs/audit-record.schema.json",
    "docs/built-in.md",
    "docs/choosing.md",
    "docs/commands.md",
    "docs/configuration.md",
    "docs/design.md",
    "docs/failures.md",
    "docs/getting-started.md",
    "docs/guarantees.md",
    "docs/interfaces.md",
    "docs/measured.md",
    "docs/modes.md",
    "docs/monitoring.md",
    "docs/operations.md",
    "docs/pipeline.md",
    "docs/policies.md",
    "docs/report.schema.json",
    "docs/security.md",
    "docs/spark.md",
    "docs/tables.md",
    "docs/topics.md",
    "docs/troubleshooting.md",
)
WORDS: Final = {
    r"\b(this|that|the|each|another|every|which|other|old|new|bad|good) ones?\b|\bones\b": "name it",
    r"\b([Tt]old|[Tt]ells|[Aa]sked|[Aa]sks)\b(?! \w+ apart)": "say, report, request",
    r"\banew\b": "again",
    r"\bfalls? short\b": "fails, is refused",
    r"\bfollows from it\b": "has no effect",
    r"\ball the same\b": "still, even so",
    r"\bcomes? of\b": "results from",
    r"\bare? of the\b|\bis of the\b": "belongs to",
    r"(^|[.:;|] )[Ww]hat (is|are|was|has|comes|passes|goes)\b": "name the subject",
    r"(^|[.:;|] )[Ww]ho (is|are|was|has|comes|may)\b": "name the subject",
    r"\bso it is\b|\bas it is where\b": "say what happens",
    r"\bsomething else\b": "name it",
    r"\bwhere there is none\b": "without it",
    r"\b(is|are) away\b": "is unavailable",
    r"(?<!there )\b(is|are) no (?!longer)[a-z]": "is not a",
    r"\bis none\b(?! of)": "does not exist, is not valid",
    r"\b(is|are) wanted\b|\bwanted (is|are)\b": "is required",
    r"\bdo(es)? not go with\b": "cannot be used with",
    r"\bgo(es)? on\b": "continues",
    r"\bcomes? again\b|\bcame again\b": "is retried, is sent again",
    r"\bbeside (it|the|a|this|Penstock)\b": "next to",
    r"\bof (its|their|an?) own\b(?! [a-z])": "its own",
    r"\bsuch an?\b": "this, these",
    r"\bfor ever\b": "permanently",
    r"\bworked through\b": "processed",
    r"\bmade of the\b": "derived from",
    r"\bcannot be listened on\b": "cannot listen on",
    r"\bsome (hundreds?|thousands?|millions?|seconds|milliseconds|minutes)\b": "a few",
    r"\b(thereby|therein|thereof|thereupon)\b": "say what happens",
    r"\bwould do\b(?! with)": "is enough",
    r"\bin place of\b": "instead of",
}
"""Patterns, and what to write."""
COMMON_IN_DOCSTRINGS: Final = {
    r"\bso it is\b|\bas it is where\b",
    r"\bwhere there is none\b",
    r"\b(is|are) away\b",
    r"(?<!there )\b(is|are) no (?!longer)[a-z]",
    r"\bis none\b(?! of)",
    r"\bbeside (it|the|a|this|Penstock)\b",
    r"\bsuch an?\b",
    r"\bmade of the\b",
}
"""Patterns that may stand in docstrings of the code: `Raises: X: There is no topic.`"""
IN_TESTS: Final = {pattern: WORDS[pattern] for pattern in WORDS.keys() - COMMON_IN_DOCSTRINGS}
"""The other patterns: for docstrings, and for messages of tests and benchmarks."""
PLAIN: Final = ("src/penstock", "tests", "benchmarks")
_CODE: Final = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)


def found(text: str, words: Mapping[str, str] = WORDS) -> list[str]:
    prose = _CODE.sub("`", text)
    return [
        f"{match[0].strip()!r} (write: {instead}): {line.strip()[:80]}"
        for line in prose.splitlines()
        for pattern, instead in words.items()
        for match in re.finditer(pattern, line)
    ]


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names of variables, parameters, fields and functions, each with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name, node.lineno
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)):
                yield name, node.lineno


def modules(*folders: str) -> Iterator[Path]:
    """Yield the Python files of folders."""
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def joined(text: str) -> str:
    """Return a text whose lines were wrapped, in one line, with a bar between its parts."""
    return re.sub(r"\s+", " ", re.sub(r"\n +(?=-)|\n\n+", " | ", text))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_strangers_is_in_plain_english(page):
    assert found((ROOT / page).read_text()) == []


def test_the_help_is_in_plain_english():
    parser, _ = complete_parser()
    assert found(joined(parser.format_help())) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_in_plain_english(command):
    _, commands = complete_parser()
    by_name = dict(zip(COMMANDS, commands, strict=True))
    assert found(joined(by_name[command].format_help())) == []


LOG_METHODS: Final = {"debug", "info", "warning", "error", "exception", "critical"}
PUBLIC: Final = ("policy", "policy/testing", "policies", "spark")


def literal(node: ast.expr) -> str:
    """Return the text of a string in the code; inserted values appear as code."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`"
                       for part in node.values)  # fmt: skip
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def messages(tree: ast.AST) -> Iterator[str]:
    """Yield the texts that a module raises, logs and prints, and those of its assertions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.msg is not None:
            yield literal(node.msg)
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
        elif isinstance(node, ast.Call) and (
            (isinstance(node.func, ast.Name) and node.func.id == "print")
            or (isinstance(node.func, ast.Attribute) and node.func.attr in LOG_METHODS)
        ):
            call = node
        else:
            continue
        yield from map(literal, (*call.args, *(keyword.value for keyword in call.keywords)))


@pytest.mark.thorough
def test_messages_are_in_plain_english():
    assert {
        f"{module.relative_to(ROOT)}: {text}": words
        for module in modules(*PLAIN)
        for text in parse(module).messages
        if (words := found(text, WORDS if module.is_relative_to(ROOT / "src") else IN_TESTS))
    } == {}


def documented(package: str) -> Iterator[tuple[str, str]]:
    """Yield the names that a package exports, and of their methods, with their docstrings."""
    folder = ROOT / "src/penstock" / package
    tree = ast.parse((folder / "__init__.py").read_text())
    yield package, ast.get_docstring(tree) or ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("penstock."):
            continue
        module = ROOT / "src" / f"{str(node.module).replace('.', '/')}.py"
        names = {alias.name for alias in node.names}
        for part in ast.parse(module.read_text()).body if module.exists() else ():
            if not isinstance(part, ast.ClassDef | ast.FunctionDef) or part.name not in names:
                continue
            for inner in (part, *part.body):
                if isinstance(inner, ast.ClassDef | ast.FunctionDef) and inner.name[0] != "_":
                    text = ast.get_docstring(inner) or ""
                    yield f"{part.name}.{inner.name}", " ".join(text.split())


@pytest.mark.parametrize("package", PUBLIC)
def test_public_docstrings_are_in_plain_english(package):
    of_names = dict(documented(package))
    assert len(of_names) > 3
    assert {name: words for name, text in of_names.items() if (words := found(text))} == {}


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, also those of its constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield joined(text)


def comments(module: Path) -> Iterator[str]:
    """Yield the comments of a module, each line by itself."""
    with module.open("rb") as lines:
        for token in tokenize.tokenize(lines.readline):
            if token.type == tokenize.COMMENT:
                yield token.string.lstrip("# ")


def comments_of_lines(file: Path) -> Iterator[str]:
    """Yield the comments of a file in Rust or JavaScript that have their own lines or end a line."""
    for line in file.read_text().splitlines():
        if match := re.search(r"(?<!:)//[/!]* (.*)", line):
            yield match[1]


class Parsed(NamedTuple):
    """The texts and names of a module.

    Attributes:
        names: Each name with the first of its lines.
    """

    messages: Sequence[str]
    docstrings: Sequence[str]
    names: Mapping[str, int]


@functools.cache
def parse(module: Path) -> Parsed:
    """Parse a module, once for all tests: there are two thousand."""
    tree = ast.parse(module.read_text())
    lines = sorted(names(tree), key=lambda name: -name[1])
    return Parsed(list(messages(tree)), list(docstrings(tree)), dict(lines))


@pytest.mark.thorough
def test_comments_are_in_plain_english():
    assert {
        f"{module.relative_to(ROOT)}: {text}": wrong
        for module in modules(*PLAIN, "native")
        for text in comments(module)
        if (wrong := found(text, IN_TESTS))
    } == {}


@pytest.mark.thorough
@pytest.mark.parametrize("pattern", ["native/*/**/*.rs", "src/**/*.js"])
def test_comments_of_rust_and_javascript_are_in_plain_english(pattern):
    files = list(ROOT.glob(pattern))
    assert len(files) > 5
    assert {
        f"{file.relative_to(ROOT)}: {text}": wrong
        for file in files
        for text in comments_of_lines(file)
        if (wrong := found(text, IN_TESTS))
    } == {}


@pytest.mark.thorough
def test_docstrings_of_the_code_are_in_plain_english():
    assert {
        f"{module.relative_to(ROOT)}: {text[:60]}": wrong
        for module in modules(*PLAIN)
        for text in parse(module).docstrings
        if (wrong := found(text, IN_TESTS))
    } == {}


def test_a_docstring_of_a_constant_is_found():
    code = 'LIMIT = 3\n"""It is asked anew."""\n\ndef f():\n    """Return it."""'
    assert list(docstrings(ast.parse(code))) == ["It is asked anew.", "Return it."]


@pytest.mark.parametrize(
    "text",
    [
        "The old one stays.",
        "Nothing is told.",
        "It is loaded anew.",
        "What is something else is not used.",
        "| a | Who comes back gets it |",
    ],
)
def test_the_words_are_found(text):
    assert found(text)


def test_a_message_of_the_code_is_found():
    code = (
        "raise ValueError(f'{x} asks for it')\nlog.warning('a topic asks')\nprint('it tells')\n"
        "assert x, 'it is told'"
    )
    assert len([word for text in messages(ast.parse(code)) for word in found(text)]) == 4


def test_code_is_not_prose():
    assert found("`what is told`, and ```\nwhat is told\n```") == []


NAMED: Final = ("src", "benchmarks", "tests", "examples", "deploy")
"""Folders in which no variable is named `one`."""


@pytest.mark.thorough
def test_a_variable_says_what_it_holds():
    found = [
        f"{path.relative_to(ROOT)}:{parse(path).names['one']}"
        for path in modules(*NAMED)
        if "one" in parse(path).names
    ]
    assert not found, f"say what `one` is in {', '.join(found)}"


NO_NOUNS: Final = frozenset(
    re.findall(
        r"\w+",
        "after asked at before begun by changed counted done existing found given held judged kept "
        "known left lost made meant mine missing of ours placed read running seen sent since "
        "started stored taken to until used waiting wanted within written",
    )
)
"""Participles and prepositions: a variable is a noun."""
OF_INTERFACES: Final = {
    "penstock/kafka/records/stored.py": {"kept"},  # the extension's
    "penstock/spark/functions.py": {"to"},  # users': redact(..., to=...)
}


@pytest.mark.thorough
def test_a_variable_is_a_noun():
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path in modules("src/penstock")
        for name, line in variables(ast.parse(path.read_text()))
        if name in NO_NOUNS
        and name not in OF_INTERFACES.get(path.relative_to(ROOT / "src").as_posix(), ())
    ]
    assert wrong == [], "say what the value is"


NO_NOUNS_IN_CLASSES: Final = NO_NOUNS | frozenset(
    re.findall(
        r"\w+",
        "abandoned aborted about accepted acquired added agreed allowed answered authenticated began "
        "blamed cached cancelled checked closed closing committed compared compiled counting "
        "decided deciding declared described detached diverted dropped ended executing expected "
        "failed framed gathered garbled gone having hidden identified ignored imported interrupted "
        "judging killed listed loaded loading logged looking measured merged mixed named objected "
        "obtaining opened over owned parked passed planned prepared quarantined reached received "
        "refused removed replaced replacing reported requested retired retiring returning reused "
        "served serving shared shown spliced staged starting stopped stopping suspended tagged "
        "theirs typed unanswered undecided unfinished unread unresolved unsent warned without",
    )
)
"""Words that are neither the name of an attribute, without its underscore, nor of a class."""
ROOMS_WITH_NOUNS: Final = ("cli", "configuration", "engine", "jobs", "kafka", "policies")
"""Rooms whose attributes, fields and classes are nouns; a state, in capitals, may be none."""
FUNCTIONS: Final = {
    "configuration/clients/client_keys.py": {"read"},
    "configuration/topic_keys.py": {"read"},
    "jobs/batches/task.py": {"Read", "read"},
}
"""Fields and a protocol that are functions: verbs."""
IN_DOCUMENTS: Final = {
    "engine/path_counts.py": {"found"},
    "jobs/report/document.py": {
        *("About", "about", "accepted", "before", "compared", "dropped", "failed", "found", "held"),
        *("judged", "lost", "measured", "refused", "written"),
    },
    "jobs/report/history.py": {"judged", "written"},
}
"""Keys of `report.json` and of the runs of its history."""
IN_OTHER_ROOMS: Final = {
    "engine/chain.py": {"replaced"},
    "engine/plans/topic_plan.py": {"named"},
    "engine/topic_configs/index.py": {"merged"},
    "engine/verdict.py": {"Diverted", "diverted", "dropped", "quarantined"},
    "jobs/batches/letter_topics.py": {"returning"},
    "jobs/rows/letter_folder.py": {"_read"},
    "jobs/rows/parquet_folders.py": {"_kept", "staged"},
    "jobs/rows/target_folders.py": {"_replaced"},
    "jobs/rows/topic_rows.py": {"_waiting", "_written"},
    "jobs/tasks/writing_task.py": {"before", "unfinished"},
    "kafka/client/writing/decisions.py": {"prepared"},
    "kafka/client/writing/prepared.py": {"Prepared"},
    "kafka/cluster/metadata.py": {"deciding"},
    "kafka/cluster/state_writes.py": {"failed", "written"},
    "kafka/wire/requests/described_configs.py": {"Requested"},
    "policies/decoded/wanted.py": {"Wanted"},
}
"""Names that the gateway, Spark or `jobs/rows` use: to be changed with those."""


@pytest.mark.thorough
def test_an_attribute_is_a_noun():
    wrong = {
        (path.relative_to(ROOT / "src/penstock").as_posix(), name)
        for path in modules(*(f"src/penstock/{room}" for room in ROOMS_WITH_NOUNS))
        for name in attributes(ast.parse(path.read_text()))
        if name.strip("_").lower() in NO_NOUNS_IN_CLASSES and not name.isupper()
    }
    excused = {
        (file, name)
        for names in (FUNCTIONS, IN_DOCUMENTS, IN_OTHER_ROOMS)
        for file in names
        for name in names[file]
    }
    assert wrong - excused == set(), "say what the value is"
    assert excused - wrong == set(), "they are excused, and not there any more"


def attributes(tree: ast.AST) -> Iterator[str]:
    """Yield the names of classes, of their fields, and of what their methods set of `self`."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name, body=body):
                yield name
                yield from (name for statement in body for name in assigned(statement))
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def assigned(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a class assigns to."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


@pytest.mark.parametrize(
    "body",
    [
        "since: int",
        "since = 3",
        "first, since = 3, 4",
        "def f(self): self.since = 3",
        "def f(self): self.first, self.since = 3, 4",
        "def f(self): self.since: int = 3",
        "class since: pass",
    ],
)
def test_a_name_in_a_class_is_found(body):
    assert "since" in set(attributes(ast.parse(f"class C:\n {body}")))


def variables(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names of variables and parameters, each with its line; no fields of classes."""
    fields = {
        id(statement.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) if id(node) not in fields:
                yield name, node.lineno
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


NOT_IN_NAMES: Final = {"anew", "ask", "asked", "asks", "said", "told", "unasked"}
"""Words that no name has: say what a function does, and a variable holds."""
NOT_IN_TESTS: Final = ("test_what_", "test_who_", "test_whoever_")
"""The beginnings that no name of a test has: name the subject."""


@pytest.mark.thorough
def test_names_of_the_code_are_in_plain_english():
    found = {
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in modules(*PLAIN)
        for name, line in parse(path).names.items()
        if name.startswith(NOT_IN_TESTS) or not NOT_IN_NAMES.isdisjoint(name.lower().split("_"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    ["for one in them: pass", "def f(one): pass", "a = b.one", "match a:\n case [one]: pass"],
)
def test_a_variable_that_does_not_say_what_it_holds(code, tmp_path):
    (tmp_path / "a.py").write_text(code)
    assert "one" in parse(tmp_path / "a.py").names
