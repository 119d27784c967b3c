"""KIP-905: replaces fields of JSON values, also by a keyed hash."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.policies.json_paths import parse, split
from penstock.policies.json_places import JsonPlaces, replace, write
from penstock.policies.topic_interceptor import TopicInterceptor, boolean, json_or_text
from penstock.policy import ConfigKey, ProduceRequestInterceptorResult
from penstock.policy.path_counts import CountsPaths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.policies.json_places import Place
    from penstock.policy import Header

_KEY_LEAST_BYTES: Final = 16


def _paths(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of paths."""
    return tuple(filter(None, split(text)))


class RedactJsonFields(CountsPaths, TopicInterceptor):
    """Replaces fields of JSON values, at any depth.

    Every byte outside these fields stays the same; tombstones are accepted. A field that occurs
    several times is replaced each time.

    Attributes:
        topics: A pattern that is found in the names of the topics (`re.search`).
        fields: Paths like `customer.email` or `cards[*].number`.
        replacement: The new value: any JSON value.
        pass_invalid_json: Whether values that are not JSON are accepted unchanged. Otherwise
            they are refused, because their contents are unknown. What other parsers may read
            as JSON is refused always: other encodings, `NaN`, thousands of levels.
    """

    drops_records: ClassVar[bool] = False
    fields: ClassVar[Sequence[str]]
    replacement: ClassVar[Any] = "***"
    pass_invalid_json: ClassVar[bool] = False
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey("fields", "LIST", None, "Paths like `customer.email` or `cards[*].number`."),
        ConfigKey("replacement", "STRING", "***", "The replacement: a JSON value, or a text."),
        ConfigKey(
            "pass.invalid.json",
            "BOOLEAN",
            "false",
            "Whether values that are not JSON are accepted. Otherwise they are refused.",
        ),
        *TopicInterceptor.config_keys,
    )
    readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **TopicInterceptor.readers,
        "fields": _paths,
        "replacement": json_or_text,
        "pass.invalid.json": boolean,
    }

    def configure(self, configs: Mapping[str, str] | None = None) -> None:
        """Read the settings.

        Args:
            configs: The configuration, for a named policy.

        Raises:
            ValueError: A setting is missing or is invalid.
        """
        super().configure(configs)
        if not getattr(self, "fields", None):
            raise ValueError(f"{type(self).__name__}.fields must be set")
        if isinstance(self.fields, str):
            raise ValueError(f"{type(self).__name__}.fields must be a tuple of paths")  # noqa: TRY004
        paths = tuple(dict.fromkeys(self.fields))
        self._places = JsonPlaces.of_paths([parse(path) for path in paths])
        self.count_paths(paths)
        try:
            self._replacement = write(self.replacement)
        except (ValueError, TypeError):
            raise ValueError(
                f"{type(self).__name__}.replacement must be a JSON value, not {self.replacement!r}"
            ) from None

    def process_record(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,  # noqa: ARG002
        partition: int,  # noqa: ARG002
        headers: Sequence[Header],  # noqa: ARG002
    ) -> ProduceRequestInterceptorResult:
        """Replace the fields.

        Raises:
            ValueError: The value is not JSON.
            RecursionError: It has thousands of levels.
        """
        if value is None:
            return ProduceRequestInterceptorResult(key, value)
        try:
            text = value.decode()
            places = self._places.find(text)
        except ValueError:
            if not self.pass_invalid_json or _may_be_read(value):
                raise
            return ProduceRequestInterceptorResult(key, value)
        self.add_found({number for place in places for number in place.paths})
        if places:
            value = replace(text, places, self.replacement_of).encode()
        return ProduceRequestInterceptorResult(key, value)

    def replacement_of(self, text: str, place: Place) -> str:  # noqa: ARG002
        """Return the JSON text that replaces the JSON text of a field."""
        return self._replacement


class HashJsonFields(RedactJsonFields):
    """Replaces fields of JSON values by a keyed hash. Equal values have equal hashes.

    The hash is HMAC-SHA-256 in hexadecimal, of a string's UTF-8 bytes, or of the JSON text
    (keys sorted, no spaces) of anything else. `null` stays. A number that is too large for a double
    is hashed as it is written.

    Attributes:
        key_from: The key: `env:NAME` or `file:PATH`, at least 16 bytes. A line break at the end is
            ignored.
    """

    key_from: ClassVar[str]
    config_keys: ClassVar[Sequence[ConfigKey]] = (
        ConfigKey(
            "key.from",
            "STRING",
            None,
            "The key, 16 bytes or more: `env:NAME` or `file:PATH`.",
        ),
        *(key for key in RedactJsonFields.config_keys if key.name != "replacement"),
    )
    readers: ClassVar[Mapping[str, Callable[[str], Any]]] = {
        **RedactJsonFields.readers,
        "key.from": str.strip,
    }

    def configure(self, configs: Mapping[str, str] | None = None) -> None:
        """Read the settings and the key.

        Args:
            configs: The configuration, for a named policy.

        Raises:
            ValueError: A setting is missing or is invalid.
        """
        super().configure(configs)
        where = f"{type(self).__name__}.key_from"
        kind, _, name = getattr(self, "key_from", "").partition(":")
        if kind not in {"env", "file"} or not name:
            raise ValueError(f"{where} must be env:NAME or file:PATH")
        if kind == "env":
            key_bytes = os.environ.get(name, "").encode()
        else:
            try:
                key_bytes = Path(name).read_bytes()
            except OSError as error:
                raise ValueError(f"{where}: {name}: {error.strerror}") from None
        self._hmac_key = key_bytes.rstrip(b"\r\n")
        if len(self._hmac_key) < _KEY_LEAST_BYTES:
            raise ValueError(f"{where}: {name} must hold at least {_KEY_LEAST_BYTES} bytes")

    def replacement_of(self, text: str, place: Place) -> str:  # noqa: ARG002
        """Return the hash of the JSON text of a field, as a JSON text."""
        value = _DECODER.decode(text)
        if value is None:
            return text
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
        else:
            data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        return f'"{hmac.new(self._hmac_key, data, hashlib.sha256).hexdigest()}"'


def _may_be_read(value: bytes) -> bool:
    """Return whether a parser may read a value that is not JSON as RFC 8259 has it.

    Python's parser finds out the encoding, as many do, and knows `NaN`.
    """
    try:
        json.loads(value, parse_int=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # thousands of digits
        return digits


def _fraction(number: str) -> float | str:
    value = float(number)
    return value if math.isfinite(value) else number


_DECODER: Final = json.JSONDecoder(parse_int=_integer, parse_float=_fraction)
"""Numbers that Python has not are read as the texts that they are written as."""
