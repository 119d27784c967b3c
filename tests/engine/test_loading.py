"""Class names become classes; a policy's own class path is private to it (KIP-940)."""

import sys
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.engine.plans.loading import ClassPath, load_class


def write(folder: Path, **modules: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def load(name: str, space: ClassPath | None = None) -> type:
    return load_class(name, key="some.key", file=Path("/etc/p.properties"), space=space)


def test_each_path_has_its_own_module_of_a_name(tmp_path):
    spaces = [
        ClassPath([write(tmp_path / name, policy=f"class P:\n    origin = {name!r}")])
        for name in ("one", "two")
    ]
    assert [load("policy.P", space).origin for space in spaces] == ["one", "two"]
    assert "policy" not in sys.modules


def test_an_import_inside_a_function_goes_the_same_way_long_after(tmp_path):
    folder = write(
        tmp_path / "path",
        policy="class P:\n    def late(self):\n        import helper\n        return helper.HERE",
        helper="HERE = 'on the path'",
    )
    policy = load("policy:P", ClassPath([folder]))()
    assert policy.late() == "on the path"
    assert "helper" not in sys.modules


@pytest.mark.kips("B34")
def test_a_module_on_the_path_wins_over_the_processs_own_and_leaves_it_alone(tmp_path):
    import json

    folder = write(tmp_path / "path", json="MINE = True", policy="import json\nclass P: j = json")
    assert load("policy.P", ClassPath([folder])).j.MINE
    assert sys.modules["json"] is json
    assert not hasattr(json, "MINE")


def test_modules_outside_the_path_come_from_the_process(tmp_path):
    folder = write(
        tmp_path / "path",
        policy="from penstock.policy import RecordValidationPolicy\n"
        "class P(RecordValidationPolicy): pass",
    )
    from penstock.policy import RecordValidationPolicy

    assert issubclass(load("policy.P", ClassPath([folder])), RecordValidationPolicy)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("NoModule", "", "the module is missing"),
        ("nowhere.P", "", "there is no module nowhere"),
        ("broken.P", "import absent_module", "No module named 'absent_module'"),
        ("broken.P", "1 / 0", "ZeroDivisionError"),
        ("broken.P", "def", r"SyntaxError.*broken.py:1"),
        ("broken.P", "import sys; sys.exit(3)", "the module ended the program"),
        ("broken.P", "Q = 1", "has no class P"),
        ("broken.P", "P = 1", "must be a class; in module broken its type is int"),
    ],
)
def test_the_error_of_loading_names_key_and_file(tmp_path, name, text, message):
    space = ClassPath([write(tmp_path / "path", broken=text)])
    with pytest.raises(
        ConfigurationError, match=rf"^/etc/p.properties: some.key: {name}: .*{message}"
    ):
        load(name, space)
