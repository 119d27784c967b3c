"""`JsonSchema` and `DataContract` with what they judge by, for where its files are not.

Such a policy can be pickled: files are read where it is made, and where it judges none is needed.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urljoin

from penstock.policies.data_contract.errors import ContractError
from penstock.policies.data_contract.policy import CONTRACT, DataContract
from penstock.policies.json_schema.documents import ROOT, SchemaDocuments, SchemaError, parsed
from penstock.policies.json_schema.files import SchemaFiles
from penstock.policies.json_schema.policy import JsonSchema, TopicChecks
from penstock.policies.json_schema.settings import SCHEMA, JsonSchemaSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from penstock.policies.data_contract.document import Contract

_NAME: Final = "the schema"
_OF_SCHEMAS: Final = "json-schema"


@contextmanager
def _as_value_errors(extra: str) -> Iterator[None]:
    """Raise a ValueError for a file that cannot be used, or a missing package.

    Args:
        extra: That which has the packages.
    """
    try:
        yield
    except (SchemaError, ContractError) as error:
        raise ValueError(str(error)) from None
    except ModuleNotFoundError as error:
        raise ValueError(
            f"there is no module {error.name}: install penstock-kafka[{extra}]"
        ) from None


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
        with _as_value_errors(_OF_SCHEMAS):
            if isinstance(schema, dict):
                policy = cls(SchemaObject(schema))
            else:
                policy = cls(SchemaFiles(schema.parent, schema.name))  # type: ignore[union-attr]
        policy.configure({})
        return policy

    def configure(self, configs: Mapping[str, str]) -> None:
        """Compile the schema.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        self._settings = JsonSchemaSettings.read(configs)
        with _as_value_errors(_OF_SCHEMAS):
            from penstock.policies.json_schema.check import compile_check  # noqa: PLC0415

            check = compile_check(self._documents, formats=self._settings.formats)
        self._topic_checks = TopicChecks(None, check)

    def _of(self, text: str) -> TopicChecks:
        del text
        return self._topic_checks

    def _named(self, text: str) -> str:
        del text
        return SCHEMA

    def __reduce__(self) -> tuple[type[GivenSchema], tuple[SchemaDocuments]]:
        return type(self), (self._documents,)


class GivenContract(DataContract):
    """Refuses records whose value does not fulfil a contract that it was given."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__()
        self._name_of_file = name
        self._data = data

    @classmethod
    def of(cls, file: Path) -> GivenContract:
        """Return the policy of a contract's file.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        with _as_value_errors("contracts"):
            from penstock.policies.data_contract.document import read_file  # noqa: PLC0415

            policy = cls(file.name, read_file(file, file.name))
        policy.configure({})
        return policy

    def configure(self, configs: Mapping[str, str]) -> None:
        """Compile all objects of the contract.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        super().configure({**configs, CONTRACT: self._name_of_file})

    def _read(self, name: str) -> Contract:
        from penstock.policies.data_contract.document import contract_of  # noqa: PLC0415

        return contract_of(name, self._data)

    def __reduce__(self) -> tuple[type[GivenContract], tuple[str, bytes]]:
        return type(self), (self._name_of_file, self._data)
