"""Regular expressions of ECMA 262 that take time in proportion to the text, as in a JSON Schema."""

from __future__ import annotations

from typing import Any


class LinearPattern:
    """A regular expression without look-around and backreferences.

    Attributes:
        text: As it was written.
    """

    def __init__(self, text: str) -> None:
        """Compile it.

        Raises:
            ValueError: It is not of this kind, or a package is missing; the text completes
                "<key> ...".
        """
        try:
            import jsonschema_rs  # noqa: PLC0415 - an extra

            from penstock.policies.json_schema.ecma import translated  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ValueError(
                f"needs the module {error.name}: install penstock-kafka[json-schema]"
            ) from None
        self.text = text
        try:
            self._validator: Any = jsonschema_rs.Draft202012Validator(
                {"pattern": translated(text, is_native=True)},
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except ValueError:
            raise ValueError(
                "must be a regular expression without look-around and backreferences, "
                f"not {text or 'nothing'}"
            ) from None

    def is_in(self, data: bytes) -> bool:
        """Return whether the pattern is found in a text; False where the bytes are not UTF-8."""
        try:
            return bool(self._validator.is_valid(data.decode()))
        except UnicodeDecodeError:
            return False
