"""Records of the audit trail have to fit the published schema."""

import json
from pathlib import Path

import jsonschema_rs

SCHEMA = json.loads((Path(__file__).parents[1] / "docs" / "audit-record.schema.json").read_text())
_VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


def checked(line: str | bytes) -> dict:
    """Return a record; fail if it does not fit the schema."""
    text = line if isinstance(line, str) else line.decode("ascii")
    assert text.splitlines() == [text], "a record is one line"
    record = json.loads(text)
    _VALIDATOR.validate(record)
    assert list(record) == SCHEMA["required"] == list(SCHEMA["properties"])
    for reason in record["reasons"]:
        assert reason.keys() == {"record", "policy", "message"}
    return record


def lines_of(path: Path) -> list[dict]:
    """Return the records of a file; each ends with a line end."""
    text = path.read_text("ascii")
    assert not text or text.endswith("\n")
    return [checked(line) for line in text.split("\n")[:-1]]
