"""Each module of src/penstock has a test file of its name, or `modules.toml` says where else."""

import tomllib
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


def has_its_own(module: Path) -> bool:
    """Return whether there is a test file of a module's name in the folder of its package.

    Of a package inside it, too, where no other module there has the same name.
    """
    if (TESTS / module.parent / f"test_{module.name}").exists():
        return True
    package = module.parts[0]
    same = [one for one in MODULES if one.parts[0] == package and one.name == module.name]
    return len(same) == 1 and any((TESTS / package).rglob(f"test_{module.name}"))


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_is_tested_somewhere(module):
    groups = [group for group in ELSEWHERE if str(module) in group["modules"]]
    assert len(groups) + has_its_own(module) == 1, f"see {TESTS / 'modules.toml'}"


@pytest.mark.parametrize("group", ELSEWHERE, ids=lambda group: group["reason"])
def test_what_the_list_names_exists(group):
    assert [one for one in group["modules"] if Path(one) not in MODULES] == []
    assert [one for one in group["tests"] if not (TESTS / one).is_file()] == []
    assert group["tests"]
