"""KIP-940: requires a key.

    policies=keyed
    policies.keyed.type=penstock.policies.KeyRequired
    topics.orders.penstock.policies=keyed

| key          | default  |                         |
|--------------|----------|-------------------------|
| `empty.keys` | `refuse` | or `accept`: empty keys |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.policies.by_columns import ByColumns
from penstock.policies.own_keys import accepts
from penstock.policy import ConfigKey, RecordIntrospectionHints

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.policies.by_columns import NativeJudge, RecordColumns

EMPTY_KEYS: Final = "empty.keys"


class KeyRequired(ByColumns):
    """Refuses records without a key."""

    config_keys = (
        ConfigKey(
            EMPTY_KEYS,
            default="refuse",
            documentation="`refuse` or `accept` empty keys.",
            valid_values=("refuse", "accept"),
        ),
    )

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the settings.

        Raises:
            ValueError: `empty.keys` is neither `accept` nor `refuse`.
        """
        self._accepts_empty = accepts(configs, EMPTY_KEYS, "refuse")

    def get_hints(self) -> RecordIntrospectionHints:
        """Return that the first byte of a key is needed."""
        return RecordIntrospectionHints(False, 1, 0)

    def refused(self, batch: RecordColumns) -> Iterator[tuple[int, str]]:
        """Yield the positions of records to refuse, with the reasons."""
        for position, key in enumerate(batch.keys):
            if key is None:
                yield position, "the record has no key"
            elif not key and not self._accepts_empty:
                yield position, "the key is empty"

    def judge_natively(self, text: str, judge: NativeJudge) -> bool:
        """Configure native threads to judge as `refused` does; return True."""
        del text
        return judge.has_key(self._accepts_empty)
