"""Each module of src/penstock has a test file with its name, or is listed in `modules.toml`.

Test files are leaves: what several of them use is in a module beside them.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

TESTS: Final = Path(__file__).parent
SOURCES: Final = TESTS.parent / "src" / "penstock"
MODULES: Final = sorted(
    path.relative_to(SOURCES) for path in SOURCES.rglob("*.py") if path.name != "__init__.py"
)
ELSEWHERE: Final[list[dict[str, Any]]] = tomllib.loads((TESTS / "modules.toml").read_text())[
    "elsewhere"
]

FROM_TEST_FILE: Final = re.compile(
    r"^ *(?:from tests(?:\.\w+)*\.test_\w+ import|import tests(?:\.\w+)*\.test_\w+)"
    r"|^ *from tests(?:\.\w+)* import (?:\(\s*)?(?:\w+,\s*)*test_\w+",
    re.MULTILINE,
)
_OF_PACKAGES: Final = frozenset({"jobs", "kafka"})
"""The rooms whose packages have a test folder each."""


def has_its_own(module: Path) -> bool:
    """Return whether there is a test file of a module's name in the folder of its package.

    This includes inner packages, if no other module there has the same name.
    """
    if (TESTS / module.parent / f"test_{module.name}").exists():
        return True
    package = _package_of(module)
    same = [other for other in MODULES if other.name == module.name and package in other.parents]
    return len(same) == 1 and any((TESTS / package).rglob(f"test_{module.name}"))


def _package_of(module: Path) -> Path:
    """Return the folder below which a module's test file may be."""
    depth = 2 if module.parts[0] in _OF_PACKAGES else 1
    return Path(*module.parts[: min(depth, len(module.parts) - 1)])


def test_each_module_is_tested_in_a_single_place():
    """Its own file or a group of `modules.toml`, not both."""
    listed = Counter(module for group in ELSEWHERE for module in group["modules"])
    wrong = [str(module) for module in MODULES if listed[str(module)] + has_its_own(module) != 1]
    assert wrong == [], f"see {TESTS / 'modules.toml'}"


def test_all_entries_of_the_list_exist():
    modules = {str(module) for module in MODULES}
    for group in ELSEWHERE:
        assert set(group["modules"]) <= modules, group["reason"]
        assert [test for test in group["tests"] if not (TESTS / test).is_file()] == []
        assert group["tests"], group["reason"]


def test_no_module_imports_from_a_test_file():
    root = TESTS.parent
    importing = {
        str(path.relative_to(root)): imported
        for folder in ("tests", "benchmarks", "examples", "src")
        for path in (root / folder).rglob("*.py")
        if (imported := FROM_TEST_FILE.findall(path.read_text()))
    }
    assert importing == {}


@pytest.mark.parametrize(
    "line",
    [
        "from tests.engine.test_plan import plan",
        "    from tests.test_errors import (\n    raised,\n)",
        "import tests.engine.test_plan as plans",
        "from tests.engine import plans, test_plan",
        "from tests import (\n    plans,\n    test_errors,\n)",
    ],
)
def test_an_import_from_a_test_file_is_found(line):
    assert FROM_TEST_FILE.search(f"import re\n{line}\n")


def test_an_import_of_a_test_module_of_others_is_not():
    assert not FROM_TEST_FILE.search("from tests.engine.plans import plan\nimport test_plan\n")
