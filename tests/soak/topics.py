"""Topics that are created, extended, altered and deleted through the gateways meanwhile."""

import contextlib
import itertools
import random
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from tests.gateways import wait_until
from tests.integration.reading import read_topic
from tests.soak.diary import Diary
from tests.soak.judge import Account, judge
from tests.soak.producer_reports import ACKNOWLEDGED, REFUSED, UNKNOWN, ProducerReport
from tests.soak.producers import PLAIN
from tests.soak.producers import Producer as Sent
from tests.soak.records import stored, text_of
from tests.soak.stage import LONGEST_RETENTION_MS, MOST_PARTITIONS, Stage
from tests.soak.topic_names import JUDGED, TOPICS

_RETENTION = "retention.ms"
POLICY, ENABLED = "records.policy.class.name", "records.policy.enabled"
_RECORDS = 40
_MIX = "gggdggcgggbgggngggdc"
_ATTEMPTS = 5
OK = 0


class TopicChanges:
    """Changes of topics.

    Attributes:
        accounts: The accounts of topics that were created and deleted.
    """

    def __init__(self, stage: Stage, diary: Diary) -> None:
        self._stage = stage
        self._diary = diary
        self._numbers = itertools.count(1)
        self.accounts: list[Account] = []

    @property
    def kinds(self) -> Mapping[str, Callable[[random.Random], str]]:
        """Return the kinds of changes, by the names in the plan."""
        return {
            "create and delete a topic": self._create_and_delete,
            "create a refused topic": self._create_refused,
            "add partitions": self._add_partitions,
            "alter configs": self._alter,
            "set refused configs": self._set_refused_configs,
        }

    def _gateway(self) -> AdminClient:
        """Return a new client: connections are cut, and gateways stop."""
        return AdminClient({
            "bootstrap.servers": self._stage.address, "log_level": 0,
            "reconnect.backoff.max.ms": 500, "socket.timeout.ms": 15_000,
        })  # fmt: skip

    def _create_and_delete(self, chance: random.Random) -> str:
        name = f"soak-passing-{next(self._numbers)}"
        configs = {_RETENTION: "86400000"}
        if chance.random() < 0.5:  # the settings of the file for all topics, as topic configs
            configs |= {POLICY: "policies.NotToday", ENABLED: "true"}
        new = NewTopic(name, chance.randint(1, 4), config=configs)
        code = self._until_known(
            lambda admin: admin.create_topics([new]), KafkaError.TOPIC_ALREADY_EXISTS
        )
        if code is None:
            return f"{name}: no answer"
        if code != OK:
            self._diary.find(f"{name} is not created: {code}")
            return name
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self._exists(name), 60, what=name)
        account = self._produce(name)
        self.accounts.append(account)
        for what, count in account.findings.items():
            self._diary.find(f"{name}: {what}: {count}, {account.examples[what]}")
        self._until_known(
            lambda admin: admin.delete_topics([name]), KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        return f"{name}, {account.counts['stored']} records stored, deleted"

    def _produce(self, name: str) -> Account:
        sent = Sent(name, "librdkafka", PLAIN, name, _MIX)
        reported = ProducerReport()

        def note(number: int, error: Any) -> None:
            refusals = {KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION,
                        KafkaError._INVALID_DIFFERENT_RECORD}  # fmt: skip
            event = ACKNOWLEDGED
            if error is not None:
                event = REFUSED if error.code() in refusals else UNKNOWN
            reported.note("1", event, str(number), "0", "")

        producer = Producer({
            "bootstrap.servers": self._stage.address, "log_level": 0, "linger.ms": 2,
            "batch.num.messages": 3, "message.timeout.ms": 30_000,
            "reconnect.backoff.max.ms": 500,
        })  # fmt: skip
        for number in range(_RECORDS):
            value = text_of(sent.letter(number), name, 1, number)
            producer.produce(
                name, value, f"k{number % 5}",
                on_delivery=lambda error, _, number=number: note(number, error),
            )  # fmt: skip
        producer.flush(40)
        found = read_topic(self._stage.upstream, name, full=True, settings={"log_level": "0"})
        return judge(sent, reported, [stored(message) for message in found])

    def _create_refused(self, chance: random.Random) -> str:
        name = f"soak-refused-{next(self._numbers)}"
        if chance.random() < 0.5:
            new = NewTopic(name, MOST_PARTITIONS + 1)
        else:
            new = NewTopic(name, 1, config={_RETENTION: str(LONGEST_RETENTION_MS + 1)})
        code = self._until_known(lambda admin: admin.create_topics([new]))
        if code not in {None, KafkaError.POLICY_VIOLATION}:
            self._diary.find(f"{name} is not refused, but answered {code}")
        if self._exists(name):
            self._diary.find(f"{name} was refused, and there it is")
        return f"{name}: {'no answer' if code is None else 'refused'}"

    def _add_partitions(self, chance: random.Random) -> str:
        name = chance.choice(TOPICS)
        count = len(self._stage.admin.list_topics(name, timeout=20).topics[name].partitions) + 1
        if count > MOST_PARTITIONS:
            return f"{name} has {count - 1}, which is enough"
        # It may be done by an attempt without a response: the next attempt is invalid then.
        code = self._until_known(
            lambda admin: admin.create_partitions([NewPartitions(name, count)]),
            KafkaError.INVALID_PARTITIONS,
        )
        if code not in {OK, None}:
            self._diary.find(f"{name} has no {count} partitions, but was answered {code}")
        return f"{name} has {count}" if code == OK else f"{name}: no answer"

    def _alter(self, chance: random.Random) -> str:
        name = chance.choice(TOPICS)
        value = str(chance.randint(86_400_000, LONGEST_RETENTION_MS))
        code = self._until_known(lambda admin: _set(admin, name, _RETENTION, value))
        if code not in {OK, None}:
            self._diary.find(f"{_RETENTION} of {name} was answered {code}")
        elif code == OK and not self._has(name, _RETENTION, value):
            self._diary.find(f"{_RETENTION} of {name} is set, and is not so")
        return f"{_RETENTION} of {name}: {'no answer' if code is None else value}"

    def _set_refused_configs(self, _: random.Random) -> str:
        value = str(LONGEST_RETENTION_MS + 1)
        code = self._until_known(lambda admin: _set(admin, JUDGED, _RETENTION, value))
        if code not in {None, KafkaError.POLICY_VIOLATION}:
            self._diary.find(f"a retention that is refused was answered {code}")
        if self._has(JUDGED, _RETENTION, value, settled=False):
            self._diary.find("a retention was refused, and there it is")
        return f"{_RETENTION} of {JUDGED}: {'no answer' if code is None else 'refused'}"

    def _until_known(
        self, call: Callable[[AdminClient], Mapping[Any, Any]], done: int | None = None
    ) -> int | None:
        """Retry until there is a response; the code `done` means that an earlier attempt succeeded.

        Returns:
            The code; None without a response.
        """
        for attempt in range(_ATTEMPTS):
            admin = self._gateway()  # its requests end with it
            try:
                (future,) = call(admin).values()
                future.result(30)
                return OK
            except KafkaException as error:
                code = error.args[0].code()
                if attempt and code == done:
                    return OK
                if not (error.args[0].retriable() or code < 0 or code in _AGAIN):
                    return int(code)
            except TimeoutError:
                continue
        return None

    def _exists(self, name: str) -> bool:
        return name in self._stage.admin.list_topics(timeout=20).topics

    def _has(self, name: str, key: str, value: str, *, settled: bool = True) -> bool:
        """Return whether a broker describes a value; other brokers may be slightly late."""
        found: list[bool] = []

        def is_described() -> bool:
            found[:] = self._described(name, key, value)
            return bool(found) and (found[0] or not settled)

        try:
            wait_until(is_described, 90)
        except AssertionError:
            if not found:  # by no broker, for all that time
                raise
        return found[0]

    def _described(self, name: str, key: str, value: str) -> list[bool]:
        """Return whether a broker describes a value; an empty list if it does not respond."""
        resource = ConfigResource(ResourceType.TOPIC, name)
        try:
            configs = self._stage.admin.describe_configs([resource])[resource].result(30)
        except (KafkaException, TimeoutError):
            return []
        return [configs[key].value == value]


_AGAIN = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.INVALID_REPLICATION_FACTOR,  # while a broker is unavailable
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)


def _set(admin: AdminClient, topic: str, key: str, value: str) -> Mapping[Any, Any]:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    return admin.incremental_alter_configs([resource])
