"""`JsonSchema` with a schema that is given as an object, with everything that it refers to.

It can be pickled: what it refers to is read where it is made, and where it judges no file is
needed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin

from penstock.policies.json_schema.documents import ROOT, SchemaDocuments, SchemaError, parsed
from penstock.policies.json_schema.files import SchemaFiles
from penstock.policies.json_schema.policy import JsonSchema, TopicChecks
from penstock.policies.json_schema.settings import JsonSchemaSettings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_NAME: Final = "the schema"


class SchemaObject(SchemaDocuments):
    """A schema that refers to no other: a mapping, as `json.loads` returns it."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Take a schema.

        Raises:
            SchemaError: It is not JSON, or not a schema.
        """
        try:
            data = json.dumps(schema, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SchemaError(f"{_NAME} is not JSON: {error}") from None
        super().__init__(_NAME, urljoin(ROOT, quote("schema")), parsed(_NAME, data))

    def _find(self, uri: str) -> Any:
        del uri
        raise SchemaError(
            "a schema that is given as a mapping has no other files: name a file instead"
        )


class GivenSchema(JsonSchema):
    """Refuses records whose value is not JSON, or does not fit a schema that it was given."""

    def __init__(self, documents: SchemaDocuments) -> None:
        super().__init__()
        self._documents = documents

    @classmethod
    def of(cls, schema: Path | Mapping[str, Any]) -> GivenSchema:
        """Return the policy of a schema, all documents of which have been read.

        Args:
            schema: Its file, or itself.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        try:
            if isinstance(schema, dict):
                policy = cls(SchemaObject(schema))
            else:
                policy = cls(SchemaFiles(schema.parent, schema.name))  # type: ignore[union-attr]
        except SchemaError as error:
            raise ValueError(str(error)) from None
        policy.configure({})
        return policy

    def configure(self, configs: Mapping[str, str]) -> None:
        """Compile the schema.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        try:
            from penstock.policies.json_schema.check import compile_check  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock-kafka[json-schema]"
            ) from None
        self._settings = JsonSchemaSettings.read(configs)
        try:
            check = compile_check(self._documents, formats=self._settings.formats)
        except SchemaError as error:
            raise ValueError(str(error)) from None
        self._topic_checks = TopicChecks(None, check)

    def _of(self, text: str) -> TopicChecks:
        del text
        return self._topic_checks

    def __reduce__(self) -> tuple[type[GivenSchema], tuple[SchemaDocuments]]:
        return type(self), (self._documents,)
