"""Classes and instances of policies on their way to workers: with their code, unless installed."""

import importlib
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.configuration import ConfigurationError
from penstock.policies import MaxBytes
from penstock.spark.rows.pickled import pickled

MODULE = """
import re
from penstock.policy import InvalidRecordException, RecordValidationPolicy
WORD = re.compile(b"bad")

def is_bad(value):
    return WORD.search(value)

class Orders(RecordValidationPolicy):
    def validate(self, topic, record):
        if is_bad(record.value):
            raise InvalidRecordException("is bad")
"""
PROGRAM = """
import pickle, sys
from penstock.policy.testing import judge
policies = pickle.loads(sys.stdin.buffer.read())
print([judge(policy, [b"bad", b"good"])[0].message for policy in policies.values()])
"""


def in_another_process(data):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=data, capture_output=True, check=True, cwd="/"
    )
    return done.stdout.decode().strip()


def test_a_module_beside_the_notebook_is_not_needed_where_it_judges(tmp_path, monkeypatch):
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    my_module = importlib.import_module("my_module")
    data = pickled({"Orders": my_module.Orders, "one": my_module.Orders()})
    assert in_another_process(data) == "['is bad', 'is bad']"
    assert b"my_module" in pickle.dumps(my_module.Orders), "by its name everywhere else"


IMPORTING = """
import whole_helpers
from part_helpers import is_bad
from penstock.policy import InvalidRecordException, RecordValidationPolicy

class Orders(RecordValidationPolicy):
    def validate(self, topic, record):
        if is_bad(record.value):
            raise InvalidRecordException(whole_helpers.TEXT)
"""
PART = """
import re
WORD = re.compile(b"bad")

def is_bad(value):
    return WORD.search(value)
"""


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Writes modules beside a notebook, and imports the first."""
    monkeypatch.syspath_prepend(str(tmp_path))
    imported = []

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        imported.extend(texts)
        return importlib.import_module(next(iter(texts)))

    yield write
    for name in imported:
        sys.modules.pop(name, None)


def test_imports_of_a_local_module_are_sent_too(beside):
    module = beside(importing=IMPORTING, part_helpers=PART, whole_helpers="TEXT = 'is bad'")
    assert in_another_process(pickled({"Orders": module.Orders})) == "['is bad']"
    assert b"importing" in pickle.dumps(module.Orders), "by its name everywhere else"


def test_the_error_names_an_imported_module_that_cannot_be_sent(beside):
    holding = "import threading\nTEXT = threading.Lock()"
    module = beside(importing_2=IMPORTING, part_helpers=PART, whole_helpers=holding)
    with pytest.raises(ConfigurationError, match=r"sent .*: the module whole_helpers: .*lock"):
        pickled({"Orders": module.Orders})


def test_a_class_of_a_notebook():
    program = MODULE + (
        "import sys; from penstock.spark.rows.pickled import pickled\n"
        "sys.stdout.buffer.write(pickled({'Orders': Orders}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert in_another_process(done.stdout) == "['is bad']"


def test_an_installed_class_goes_by_its_name():
    data = pickled({"MaxBytes": MaxBytes})
    assert pickle.loads(data) == {"MaxBytes": MaxBytes}
    assert len(data) < 200
    assert pickled({}) == b""


def test_the_error_names_a_policy_that_cannot_be_sent():
    class Holding(MaxBytes):
        def __init__(self):
            self.lock = threading.Lock()

    with pytest.raises(ConfigurationError, match=r"plan: policies: held cannot be sent .*lock"):
        pickled({"held": Holding()})


PLACES = """
import pickle, site, sys
from pathlib import Path
here = Path(sys.argv[1])
site.getsitepackages = lambda: [str(here / "dist-packages")]
for name in ("user", "dist-packages", "spark/python"):
    sys.path.append(str(here / name if name != "user" else site.getusersitepackages()))
from penstock.spark.rows.pickled import pickled
import in_dist, in_spark, in_user, in_project
for module in (in_dist, in_spark, in_user, in_project):
    print(module.__name__, b"is bad" not in pickled({"Orders": module.Orders}))
"""


def test_installed_modules_travel_by_their_names(tmp_path):
    environment = {**os.environ, "PYTHONUSERBASE": str(tmp_path / "base")}
    environment |= {"SPARK_HOME": str(tmp_path / "spark"), "PYTHONPATH": str(tmp_path / "project")}
    user_site = subprocess.run(
        [sys.executable, "-c", "import site; print(site.getusersitepackages())"],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    for name, folder in {
        "in_dist": tmp_path / "dist-packages",
        "in_spark": tmp_path / "spark" / "python",
        "in_user": Path(user_site),
        "in_project": tmp_path / "project",
    }.items():
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PLACES, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout == "in_dist True\nin_spark True\nin_user True\nin_project False\n"
