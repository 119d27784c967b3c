"""An extra has all packages that its policies need; a user's policy needs no extra.

Each program runs without the packages that `pip install penstock-kafka[EXTRA]` would not install.
"""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
pytestmark = pytest.mark.system
OWN = """
import penstock.policies
from penstock.policy import InvalidRecordException, RecordValidationPolicy

class NotEmpty(RecordValidationPolicy):
    def validate(self, topic, record):
        if not record.value:
            raise InvalidRecordException("empty")

good, bad = judge(NotEmpty, [b"a", b""])
"""
JSON_SCHEMA = """
from penstock.policies import JsonSchema
with open("s.json", "w") as file:
    file.write('{"type": "object"}')
good, bad = judge(JsonSchema, [b"{}", b"1"], validation_policy="s.json", configs=HERE)
"""
RULES = """
from penstock.policies import Rules
good, bad = judge(Rules, [b'{"a": 1}', b'{"a": 0}'], configs={"rules.a": "value.a > 0"})
"""
CONTRACTS = """
from penstock.policies import DataContract
with open("c.yaml", "w") as file:
    file.write('''{apiVersion: v3.0.2, kind: DataContract, id: c, version: "1", status: active,
        schema: [{name: o, properties: [{name: id, logicalType: string, required: true}]}]}''')
good, bad = judge(DataContract, [b'{"id": "1"}', b"{}"], configs={**HERE, "contract": "c.yaml"})
"""
SCHEMAS = """
from penstock.policies import SchemaPolicy
with open("s.avsc", "w") as file:
    file.write('"int"')
topic_configs = {"confluent.value.schema.validation": "true", "schema.file": "s.avsc"}
good, bad = judge(SchemaPolicy, [b"\\2", b""], topic_configs=topic_configs, configs=HERE)
"""


def packages(extra: str | None) -> set[str]:
    """Return the packages that an installation of penstock, with an extra, has."""
    found: set[tuple[str, str]] = set()
    pending = [Requirement(text) for text in PROJECT["dependencies"]]
    pending += [Requirement(f"penstock-kafka[{extra}]")] if extra else []
    while pending:
        wanted = pending.pop()
        name = canonicalize_name(wanted.name)
        for of in {"", *wanted.extras}:
            if (name, of) in found:
                continue
            found.add((name, of))
            if name == "penstock-kafka":
                texts = PROJECT["optional-dependencies"][of] if of else ()
            else:
                texts = metadata.requires(name) or ()
            pending += [
                needed
                for needed in map(Requirement, texts)
                if not needed.marker or needed.marker.evaluate({"extra": of})
            ]
    return {name for name, _ in found}


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("extra", "program"),
    [
        (None, OWN),
        ("json-schema", JSON_SCHEMA),
        ("rules", RULES),
        ("contracts", CONTRACTS),
        ("schemas", SCHEMAS),
    ],
)
def test_an_extra_has_the_packages_of_its_policies(extra, program, tmp_path):
    there = packages(extra)
    missing = [
        module
        for module, names in metadata.packages_distributions().items()
        if not there & set(map(canonicalize_name, names)) and module != "penstock"
    ]
    head = (
        f"import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n"
        "from penstock.policy.testing import judge\n"
        f"HERE = {{'json.schema.folder': {str(tmp_path)!r}}}\n"
    )
    end = "\nprint(good.outcome, bad.outcome)\n"
    done = subprocess.run(
        [sys.executable, "-c", head + program + end],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("accepted refused\n", "")
