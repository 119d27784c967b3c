"""A schema, ready to judge texts: in Rust, or by a library if it refers to a metaschema.

Both see the same documents:

- UTF-8 without a byte order mark, one document and nothing behind it but white space
- `NaN`, `Infinity`, comments, trailing commas and halves of surrogate pairs are not JSON
- at most 127 levels of arrays and objects
- of properties with the same name the last counts
- integers of 64 bits are exact, other numbers are the nearest double; a number too large
  for a double is refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.policies.json_schema import native
from penstock.policies.json_schema.library import LibraryCheck

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.policies.by_columns import NativeJudge
    from penstock.policies.json_schema.column_schema import ColumnSchema
    from penstock.policies.json_schema.documents import SchemaDocuments
    from penstock.policies.json_schema.reasons import Reason, Texts
    from penstock.policies.json_schema.required_fields import RequiredField


class Check(Protocol):
    """Judges texts by a schema."""

    @property
    def is_bounded(self) -> bool:
        """Whether `all_fit` takes a few milliseconds at most for any texts."""
        ...

    @property
    def column_schema(self) -> ColumnSchema | None:
        """The schema for judges of columns; None where only this can judge by it."""
        ...

    @property
    def required_fields(self) -> Iterable[RequiredField]:
        """The fields that every object must have, and their types."""
        ...

    def judge_natively(
        self, judge: NativeJudge, *, keys: bool, accepts_null: bool, longest: int | None = None
    ) -> bool:
        """Configure native threads to judge as `all_fit` does; return whether that is possible.

        Args:
            judge: What they judge by.
            keys: Whether keys are judged; values if not.
            accepts_null: Whether one may be None.
            longest: The most bytes of a text that is judged; None for any number.
        """
        ...

    def refused(self, texts: Texts, start: int = 0) -> Iterable[tuple[int, str]]:
        """Return the positions of texts that do not fit, ascending, each with its message.

        Args:
            texts: The texts to judge; None is ignored.
            start: Where each of them starts: earlier bytes, a schema id, are not judged.
        """
        ...

    def unfit(self, texts: Texts) -> Sequence[int]:
        """Return the positions of texts that do not fit, ascending."""
        ...

    def reasons(self, text: bytes) -> Sequence[Reason]:
        """Return all reasons why a text does not fit, up to a number.

        None where it is not JSON, or where finding them would take too much work; `refused` says
        more then.
        """
        ...

    def all_fit(self, texts: Texts, start: int = 0) -> bool:
        """Return whether all texts fit; False as well where that would take long to find out."""
        ...


def compile_check(files: SchemaDocuments, *, formats: bool) -> Check:
    """Compile a schema.

    Args:
        formats: Whether `format` is judged.

    Raises:
        SchemaError: It is not a valid schema, refers to a missing schema, or is too large.
    """
    try:
        return native.NativeCheck(files, formats=formats)
    except native.MetaschemaNeeded:  # the library has them
        return LibraryCheck(files, formats=formats)


def objection(check: Check, text: bytes, field: str) -> str | None:
    """Return why a text does not fit, and None where it does; `field` is `key` or `value`."""
    for _, reason in check.refused((text,)):
        return f"the {field} {reason}"
    return None
