"""The process that imports users' classes: its descriptions of them."""

import json
import os
import sys

import pytest

from penstock.configuration.policy_classes import PolicyClass
from penstock.engine.plans import declared

MODULE = """
from penstock.policy import *

class Declares(RecordValidationPolicy):
    topic_configs = (TopicConfig("shop.level", "STRING", "low", "How much.", ("low", "high")),)
    config_keys = (ConfigKey("shop.size", "INT", "1", "How large."),)
    def validate(self, topic, record): pass

class DeclaresNothing(RecordValidationPolicy):
    def validate(self, topic, record): pass

class DeclaresWrong(RecordValidationPolicy):
    topic_configs = 7
    config_keys = 7
    def validate(self, topic, record): pass
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module next to the configuration file; `sys.path` is restored."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"declares_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield name
    sys.modules.pop(name, None)


@pytest.fixture
def answer(monkeypatch):
    """Sends one request; returns the answer."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)

    def answered(*arguments):
        read, write = os.pipe()
        declared.main(write, arguments)
        assert ended.pop() == 0
        with os.fdopen(read, "rb") as pipe:
            return json.loads(pipe.read())

    return answered


def of_topics(answer, class_name, file, *class_path):
    return answer(json.dumps([class_name, str(file), list(map(str, class_path))]))


def test_a_class_declares_keys_of_topics(answer, module, tmp_path):
    found, error = of_topics(answer, f"{module}.Declares", tmp_path / "file")
    assert [row[:3] for row in found] == [["shop.level", "STRING", "low"]]
    assert error == ""
    assert of_topics(answer, f"{module}.DeclaresNothing", tmp_path / "file") == [[], ""]


def test_a_class_is_looked_for_in_the_folders_first(answer, module, tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / f"{module}.py").write_text(MODULE.replace("shop.level", "first.level"))
    found, _ = of_topics(answer, f"{module}.Declares", tmp_path / "file", folder)
    assert [row[0] for row in found] == ["first.level"]


def test_a_class_that_cannot_be_imported_declares_nothing(answer, module, tmp_path):
    assert of_topics(answer, f"{module}.Missing", tmp_path / "file") == [[], ""]


def test_keys_of_topics_that_are_not_usable_are_an_error(answer, module, tmp_path):
    file = tmp_path / "file"
    found, error = of_topics(answer, f"{module}.DeclaresWrong", file)
    assert found == []
    assert error.startswith(
        f"{file}: record.validation.policy.class.name: {module}.DeclaresWrong: topic_configs"
    )


def test_classes_are_described(answer, module, tmp_path):
    names = {
        "policies.a.class": f"{module}.Declares",
        "policies.b.class": f"{module}.DeclaresNothing",
    }
    found, error = answer("--classes", json.dumps([names, str(tmp_path / "file")]))
    assert error == ""
    first, second = (PolicyClass.decode(found[key]) for key in names)
    assert first.key("shop.size") is not None
    assert second.key("shop.size") is None


@pytest.mark.parametrize(
    ("name", "text"), [("Missing", "has no class"), ("DeclaresWrong", "config_keys")]
)
def test_a_class_that_is_not_usable_is_an_error(answer, module, tmp_path, name, text):
    file = tmp_path / "file"
    names = {"policies.a.class": f"{module}.{name}"}
    found, error = answer("--classes", json.dumps([names, str(file)]))
    assert found == {}
    assert error.startswith(f"{file}: policies.a.class: {module}.{name}")
    assert text in error


def test_the_folder_of_the_file_is_looked_in_once_and_first(answer, module, tmp_path):
    for _ in range(2):
        of_topics(answer, f"{module}.Declares", tmp_path / "file")
    assert sys.path[0] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1


def test_the_folder_of_the_file_is_looked_in_first_if_it_was_later_in_the_path(
    answer, module, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{module}.py").write_text("class Declares: topic_configs = ()")
    sys.path[:] = [str(elsewhere), *sys.path, str(tmp_path)]

    (declared_keys, _) = of_topics(answer, f"{module}.Declares", tmp_path / "file")

    assert declared_keys
    assert sys.path[0] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
