"""The producers of the soak, their topics and their records."""

import random
from dataclasses import dataclass
from typing import Final

from tests.soak.records import BAD, CHANGED, DROPPED, GOOD, NOT_TODAY, SLOW
from tests.soak.topic_names import (
    INTERCEPTED,
    JUDGED,
    MARKED,
    OBSERVED,
    QUARANTINED,
    SCHEMAS,
    TRANSACTIONS,
)

PLAIN: Final = "plain"
IDEMPOTENT: Final = "idempotent"
TRANSACTIONAL: Final = "transactional"

LIBRDKAFKA: Final = "librdkafka"
JAVA: Final = "Java"
FRANZ_GO: Final = "franz-go"
KAFKAJS: Final = "kafkajs"
KAFKA_PYTHON: Final = "kafka-python"
AIOKAFKA: Final = "aiokafka"
KCAT: Final = "kcat"
CLIENTS: Final = (LIBRDKAFKA, JAVA, FRANZ_GO, KAFKAJS, KAFKA_PYTHON, AIOKAFKA, KCAT)


@dataclass(frozen=True)
class Producer:
    """A producer of a client.

    Attributes:
        kind: `PLAIN`, `IDEMPOTENT` or `TRANSACTIONAL`.
        mix: The repeated letters of its records: number n has `mix[n % len(mix)]`.
    """

    name: str
    client: str
    kind: str
    topic: str
    mix: str

    def letter(self, number: int) -> str:
        """Return the letter of a record, which decides its outcome."""
        return self.mix[number % len(self.mix)]

    @property
    def argument(self) -> str:
        """Return the producer as an argument of its program."""
        return f"{self.name},{self.kind},{self.topic},{self.mix}"


_CLEAN: Final = GOOD * 20 + DROPPED * 5 + CHANGED * 5 + SLOW
_SOME_REFUSED: Final = _CLEAN + GOOD * 20 + BAD * 2
_JUDGED: Final = GOOD * 90 + BAD * 2 + NOT_TODAY * 2 + SLOW
_OBSERVED: Final = GOOD * 20 + BAD * 4 + NOT_TODAY * 4 + DROPPED * 4 + CHANGED * 4
_WITH_BAD: Final = GOOD * 40 + BAD * 9 + SLOW
_SCHEMAS: Final = GOOD * 20 + BAD * 2

# A producer of kafka-python, aiokafka or kafkajs that is idempotent is broken by a refusal
# (docs/failures.md): theirs send nothing that is refused, and so lose no time.
_ROLES: Final = {
    "clean": (IDEMPOTENT, INTERCEPTED, _CLEAN),
    "refused": (IDEMPOTENT, INTERCEPTED, _SOME_REFUSED),
    "plain": (PLAIN, JUDGED, _JUDGED),
    "transactions": (TRANSACTIONAL, TRANSACTIONS, _CLEAN),
    "aborted": (TRANSACTIONAL, TRANSACTIONS, _SOME_REFUSED),
    "schemas": (IDEMPOTENT, SCHEMAS, GOOD),
    "schemas-refused": (PLAIN, SCHEMAS, _SCHEMAS),
    "observed": (IDEMPOTENT, OBSERVED, _OBSERVED),
    "quarantined": (IDEMPOTENT, QUARANTINED, _WITH_BAD),
    "marked": (IDEMPOTENT, MARKED, _WITH_BAD),
}
_OF_CLIENT: Final = {
    LIBRDKAFKA: (
        "clean",
        "refused",
        "plain",
        "transactions",
        "aborted",
        "schemas",
        "observed",
        "quarantined",
        "marked",
    ),
    JAVA: (
        "clean",
        "refused",
        "plain",
        "transactions",
        "aborted",
        "observed",
        "quarantined",
        "marked",
    ),
    FRANZ_GO: ("clean", "plain", "transactions"),
    KAFKAJS: ("clean", "plain", "transactions"),
    KAFKA_PYTHON: ("clean", "plain", "transactions", "schemas-refused"),
    AIOKAFKA: ("clean", "plain", "transactions", "schemas-refused"),
    KCAT: ("clean", "plain"),
}


def producers(client: str, chance: random.Random) -> list[Producer]:
    """Return a client's producers; the order of their records is drawn."""
    made = []
    for role in _OF_CLIENT[client]:
        kind, topic, letters = _ROLES[role]
        mix = "".join(chance.sample(letters, len(letters)))
        made.append(Producer(f"{client}/{role}", client, kind, topic, mix))
    return made
