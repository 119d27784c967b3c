"""The official JSON Schema suite, as the source package of PyPI's `jsonschema` carries it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from penstock.kafka.artifacts import cache_folder
from penstock.policies.json_schema.documents import ROOT, SchemaDocuments, SchemaError
from penstock.policies.json_schema.texts import SchemaTexts
from tests.suites.fetched import sdist

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER: Final = cache_folder() / "suites" / "jsonschema-4.26.0" / "json"
_SUM: Final = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
DRAFTS: Final = {
    "draft4": 4,
    "draft6": 6,
    "draft7": 7,
    "draft2019-09": 2019,
    "draft2020-12": 2020,
}
KINDS: Final = {
    "required": "*.json",
    "optional": "optional/*.json",
    "format": "optional/format/*.json",
}
_REMOTES: Final = "http://localhost:1234/"
"""Where the suite expects its other documents to be served; they are read from its folder."""


def fetch() -> None:
    """Fetch the suite, unless it is there.

    Raises:
        BuildError: It cannot be fetched.
    """
    sdist("jsonschema", "4.26.0", _SUM)


class Case(NamedTuple):
    """One test of the suite.

    Attributes:
        name: Draft, kind, file, group and test.
        text: The value, as JSON.
        is_valid: Whether it fits.
    """

    name: str
    text: bytes
    is_valid: bool


def groups(draft: str, kind: str) -> Iterator[tuple[Any, list[Case]]]:
    """Yield each schema of a draft's tests, with its cases."""
    for file in sorted((FOLDER / "tests" / draft).glob(KINDS[kind])):
        for group in json.loads(file.read_text()):
            begins = f"{draft} {kind} {file.stem}: {group['description']}"
            yield (
                group["schema"],
                [
                    Case(
                        f"{begins}: {test['description']}",
                        json.dumps(test["data"], ensure_ascii=False).encode(),
                        test["valid"],
                    )
                    for test in group["tests"]
                ],
            )


def remote(uri: str) -> Path | None:
    """Return the file of a document that the suite serves."""
    path = FOLDER / "remotes" / uri.removeprefix(_REMOTES)
    return path if uri.startswith(_REMOTES) and path.is_file() else None


class ByFile(SchemaDocuments):
    """A schema of the suite as `JsonSchema` has it, with the suite's documents in its folder."""

    def __init__(self, schema: Any, draft: int) -> None:
        self._default = draft
        super().__init__("schema.json", ROOT + "schema.json", schema)

    def _find(self, uri: str) -> Any:
        path = remote(uri)
        if path is None:
            raise SchemaError("no such document")
        return json.loads(path.read_text())


class _Remotes(dict[str, str]):
    """The suite's documents, as the references of a schema."""

    def __contains__(self, uri: object) -> bool:
        return isinstance(uri, str) and remote(uri) is not None

    def __missing__(self, uri: str) -> str:
        path = remote(uri)
        assert path is not None
        return path.read_text()


class ById(SchemaTexts):
    """A schema of the suite as `SchemaPolicy` has it, with the suite's documents as references."""

    def __init__(self, schema: Any, draft: int) -> None:
        self._default = draft
        super().__init__(json.dumps(schema), _Remotes())


POLICIES: Final = {"JsonSchema": ByFile, "SchemaPolicy": ById}
