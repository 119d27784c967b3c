"""A topic level key that Penstock does not have, and Penstock with this key: a new row in the table.

`python -m tests.engine.topic_configs.added_key gateway FILE` is `penstock gateway FILE` with the key.
"""

import sys
from typing import Final

from penstock.cli import main
from penstock.configuration.topic_keys import TOPIC_KEYS, KeyType, Scope, TopicKey
from penstock.configuration.values import one_of

ADDED: Final = TopicKey(
    name="test.level",
    type=KeyType("STRING", 2, one_of("low", "high"), lambda value: value.strip().lower()),
    default="low",
    scopes=Scope.FILE | Scope.GLOB | Scope.TOPIC,
    meaning="How much.",
    documentation="A test's key.",
)

if __name__ == "__main__":
    TOPIC_KEYS[ADDED.name] = ADDED
    sys.exit(main())
