"""Events that occur in some histories, in addition to those of all histories."""

import random
from dataclasses import dataclass

STEPS = 60
MANY_STEPS = 250


@dataclass(frozen=True)
class Features:
    """The special events of a history; none by default.

    Attributes:
        runs: The interceptor drops all records for a while: runs of batches without a record.
        checksums: Batches are identified by their checksums, as in the gateway.
        gives_up: Clients give up batches (`delivery.timeout.ms`, `message.timeout.ms`) and continue.
        appended: A broker answers 7 or 20 for batches that it has appended.
        compacts: The topic with the producers' state keeps only the last record of each key.
        writes_late: For a while no record can be written; writes that have timed out are done later.
        evicts: A gateway remembers fewer producers than there are; it keeps their records.
        forgets: It keeps fewer records than there are, too.
        little_memory: A gateway holds almost no bytes for retries.
        switches: Gateways lose their interceptors, and get them back (SIGHUP).
        rolls_out: Each of them does so for itself, so that they differ for a while.
        changes: Interceptors also change records, and are replaced by others that change and drop
            others, if gateways lose theirs otherwise.
        passes: Gateways that have lost their interceptors keep nothing of a topic's batches, unless
            they have to (`Producers.has_topic`). Never by chance: seed 8961 of all that switch gets
            59 without shared state, where a batch is followed in the middle of an epoch.
        quarantines: Some of the records that are not stored become dead letters (`penstock.mode`);
            while interceptors are switched off they are marked, and stored.
        returns: A leader that was replaced may lead again, with records that only it has.
        digests: Gateways keep digests of their interceptors, and start without doubts if all are
            equal; some start with other interceptors, and ten minutes pass now and then.
        forges: The second client sends other records, which are bad, with the numbers and the
            checksum of a batch that it repeats; all that it gets is due to it.
        takes_later: A leader that does not know a producer is elected while batches are on their
            way, and may take a later batch first (KAFKA-15591).
        gateways: How many there are where they share their state.
        steps: The number of random events.
    """

    runs: bool = False
    checksums: bool = False
    gives_up: bool = False
    appended: bool = False
    compacts: bool = False
    writes_late: bool = False
    evicts: bool = False
    forgets: bool = False
    little_memory: bool = False
    switches: bool = False
    rolls_out: bool = False
    changes: bool = False
    passes: bool = False
    quarantines: bool = False
    returns: bool = False
    digests: bool = False
    takes_later: bool = False
    forges: bool = False
    gateways: int = 2
    steps: int = STEPS

    def __str__(self) -> str:
        named = [name for name, value in vars(self).items() if value is True]
        if self.gateways > 2:
            named.append(f"{self.gateways} gateways")
        if self.steps != STEPS:
            named.append(f"{self.steps} steps")
        return ", ".join(named) or "plain"


PLAIN = Features()


def features_of(seed: object) -> Features:
    """Choose the events of a history; no special events in a quarter of them."""
    chance = random.Random(f"features {seed}")
    if chance.random() < 0.25:
        return PLAIN
    evicts = chance.random() < 0.3
    usual = [chance.random() < 0.3 for _ in range(6)]
    more = random.Random(f"more features {seed}")
    switches = more.random() < 0.3
    return Features(
        *usual,
        evicts=evicts,
        forgets=evicts and chance.random() < 0.3,
        little_memory=chance.random() < 0.3,
        gateways=chance.choice((2, 2, 3, 4)),
        steps=MANY_STEPS if chance.random() < 0.1 else STEPS,
        switches=switches,
        rolls_out=switches and more.random() < 0.5,
        quarantines=more.random() < 0.4,
        returns=more.random() < 0.4,
        changes=switches and more.random() < 0.4,
        digests=more.random() < 0.2,
        takes_later=not switches and more.random() < 0.15,
        forges=random.Random(f"forges {seed}").random() < 0.15,
    )
