"""KIP-940: requires headers.

    policies=traced
    policies.traced.type=penstock.policies.HeaderRequired
    policies.traced.headers=trace-id,tenant
    policies.traced.headers.tenant.pattern=^[a-z]{2,20}$
    topics.orders.penstock.policies=traced

| key                      |                                                              |
|--------------------------|--------------------------------------------------------------|
| `headers`                | the names, separated by commas                               |
| `headers.<name>.pattern` | a regular expression that is found in the header's value     |

If a record has a header several times, the last value counts. Patterns are those of `JsonSchema`:
ECMA 262's, in linear time. With `^` and `$`, a pattern is about the complete value. A pattern needs
the packages of `penstock-kafka[json-schema]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.policies.by_columns import ByColumns
from penstock.policies.linear_patterns import LinearPattern
from penstock.policies.own_keys import NOT_IN_NAMES, names
from penstock.policy import ConfigKey, RecordIntrospectionHints

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.policies.by_columns import NativeJudge, RecordColumns
    from penstock.policy import Header

HEADERS: Final = "headers"
_PREFIX: Final = "headers."
_PATTERN: Final = ".pattern"


class HeaderRequired(ByColumns):
    """Refuses records without required headers, or whose values do not match."""

    config_keys = (
        ConfigKey(
            HEADERS, "LIST", documentation="Names of headers, separated by commas.", required=True
        ),
        ConfigKey(
            f"{_PREFIX}<name>{_PATTERN}",
            documentation="A regular expression that must be found in the header's last value.",
        ),
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ValueError: A name is missing or has quotes or brackets, a pattern is invalid or is
                about a header that is not listed, or a package is missing.
        """
        self._names = names(configs, HEADERS, "trace-id,tenant")
        for name in self._names:
            if NOT_IN_NAMES.search(name):
                raise ValueError(
                    f"{HEADERS} must list names without quotes and brackets, separated by commas, "
                    f"like {HEADERS}=trace-id,tenant, not {configs[HEADERS]}"
                )
        self._patterns: dict[str, LinearPattern] = {}
        for key, text in configs.items():
            if not key.startswith(_PREFIX):
                continue
            name = key[len(_PREFIX) :].removesuffix(_PATTERN)
            if not key.endswith(_PATTERN) or name not in self._names:
                raise ValueError(
                    f"{key} is unknown; there is {_PREFIX}<name>{_PATTERN} for "
                    f"{', '.join(self._names)}"
                )
            try:
                self._patterns[name] = LinearPattern(text)
            except ValueError as error:
                raise ValueError(f"{key} {error}") from None

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that only headers are needed."""
        return RecordIntrospectionHints(True, 0, 0)

    def refused(self, batch: RecordColumns) -> Iterator[tuple[int, str]]:
        """Yield the positions of records to refuse, with the reasons."""
        for position, headers in enumerate(batch.headers):
            text = self._objection(headers)
            if text is not None:
                yield position, text

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads as `refused`; return whether that is possible: no patterns."""
        del text
        return not self._patterns and judge.has_headers(list(self._names))

    def _objection(self, headers: Iterable[Header]) -> str | None:
        last = {header.key: header.value for header in headers}
        for name in self._names:
            if name not in last:
                return f"header {name} is missing"
        for name, pattern in self._patterns.items():
            value = last[name]
            if value is None:
                return f"header {name} has no value"
            if not pattern.is_in(value):
                return f"header {name} does not match {pattern.text}"
        return None
