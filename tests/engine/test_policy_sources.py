"""The sources that a class needs: found without importing anything."""

import sys

import pytest

from penstock.engine.plans.policy_sources import PolicySources


@pytest.fixture
def folder(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def modules(place, name, **options):
    return sorted(PolicySources([place], **options).of_class(name).modules)


@pytest.mark.parametrize("name", ["mine.Check", "mine:Check"])
def test_imports_are_followed_wherever_they_stand(folder, name):
    place = folder(
        mine="import one\n\ndef later():\n    from two import thing\n",
        one="import three.four\n",
        two="",
        three__init="",
        three__four="",
        other="",
    )
    (place / "three" / "__init__.py").write_text("")
    assert modules(place, name) == ["mine", "one", "three", "three.four", "two"]


def test_relative_imports_and_modules_of_packages_are_found(folder):
    place = folder(
        pack__mine="from . import one\nfrom .deep.two import x\nfrom ..nowhere import y\n",
        pack__one="",
        pack__deep__two="from .. import three\nfrom pack import four",
        pack__three="",
        pack__four="",
        pack__five="",
    )
    found = ["pack.deep.two", "pack.four", "pack.mine", "pack.one", "pack.three"]
    assert modules(place, "pack.mine.Check") == found


def test_only_the_content_counts_not_the_place(folder, tmp_path):
    place = folder(mine="import one\n", one="")
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("mine.py", "one.py"):
        (other / name).write_text((place / name).read_text())
    sources = [PolicySources([each]).of_class("mine.Check") for each in (place, other)]
    assert sources[0] == sources[1]
    (other / "one.py").write_text("# a comment")
    assert PolicySources([other]).of_class("mine.Check") != sources[0]


def test_earlier_folders_win(folder, tmp_path):
    place = folder(mine="import one\n", one="", first__one="import two", two="")
    found = PolicySources([place / "first", place]).of_class("mine.Check").modules
    assert sorted(found) == ["mine", "one", "two"]


def test_installed_packages_count_by_name_and_version(folder):
    place = folder(
        mine="import json, os.path\nimport yaml\nfrom google.protobuf import message\n"
        "import penstock.policy\nimport not_there.at_all\n"
    )
    sources = PolicySources([place]).of_class("mine.Check")
    assert sorted(sources.modules) == ["mine"]
    assert sorted(sources.packages) == ["not_there", "protobuf", "pyyaml"]
    assert sources.packages["not_there"] == ""
    assert sources.packages["pyyaml"][0].isdigit()


def test_modules_elsewhere_on_the_path_count_unless_they_are_installed(folder, tmp_path):
    place = folder(mine="import beside\nimport kept\n")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "beside.py").write_text("")
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "kept.py").write_text("")
    info = installed / "keeper-7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: Keeper\nVersion: 7\n")
    (info / "RECORD").write_text("keeper-7.dist-info/METADATA,,\nkept.py,,\n")
    path = [str(tmp_path / "path"), str(installed)]
    sources = PolicySources([place], path).of_class("mine.Check")
    assert sorted(sources.modules) == ["beside", "mine"]
    assert sources.packages == {"keeper": "7"}


def test_modules_that_import_each_other_end(folder):
    place = folder(mine="import other", other="import mine")
    assert modules(place, "mine.Check") == ["mine", "other"]


def test_a_module_with_an_error_counts(folder):
    assert modules(folder(mine="import ("), "mine.Check") == ["mine"]


def test_a_module_without_source_is_named(folder, tmp_path):
    import py_compile

    place = folder(mine="import compiled", compiled="")
    py_compile.compile(str(place / "compiled.py"), str(place / "compiled.pyc"))
    (place / "compiled.py").unlink()
    sources = PolicySources([place]).of_class("mine.Check")
    assert sources.unreadable == ("compiled: has no source",)


def test_nothing_is_imported(folder):
    place = folder(digested_apart="raise AssertionError\n")
    assert modules(place, "digested_apart.Check") == ["digested_apart"]
    assert "digested_apart" not in sys.modules


def test_a_class_that_is_nowhere_has_no_sources(tmp_path):
    sources = PolicySources([tmp_path]).of_class("nowhere_at_all.Check")
    assert (sources.modules, sources.packages) == ({}, {"nowhere_at_all": ""})
