"""A round: new topics, a producer of each kind, disturbances, and the accounts at the end."""

import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.chaos import modes
from tests.chaos.account import Account, DeliveryReports, account
from tests.chaos.disturbances import PREFIX, chosen
from tests.chaos.producers import HANGS_AFTER_S, Producer, Running, kinds, start
from tests.chaos.stale_verification import refused_in_order
from tests.chaos.unrecognized import unrecognized_batches
from tests.chaos.world import Way, World
from tests.conftest import create_topic
from tests.gateways import RunningGateway, wait_until
from tests.integration.reading import read_topic

PARTITIONS = 3


@dataclass
class Round:
    """The events of a round, and the accounts of all producers."""

    seed: int
    happened: list[str] = field(default_factory=list)
    accounts: dict[Producer, Account] = field(default_factory=dict)

    @property
    def through_penstock(self) -> dict[Producer, Account]:
        return {p: account for p, account in self.accounts.items() if p.through_penstock}

    @property
    def broken(self) -> dict[Producer, Account]:
        """Producers that lost records through Penstock, or could not continue."""
        return {p: account for p, account in self.through_penstock.items() if account.is_broken}

    @property
    def is_remarkable(self) -> bool:
        """Return whether anything is unusual, also in the control."""
        return any(account.is_remarkable for account in self.accounts.values())

    @property
    def summary(self) -> str:
        """Return a summary in a line."""
        count = sum(len(account.deliveries.acknowledged) for account in self.accounts.values())
        found = [f"{p.name}: {a}" for p, a in self.accounts.items() if a.is_remarkable]
        return f"{count} records, {'; '.join(found) or 'as it should be'}"

    def has_restarted(self, gateway: RunningGateway) -> bool:
        """Return whether a gateway was stopped or killed."""
        return any(f"gateway {gateway.address} " in line for line in self.happened)

    def facts(self) -> str:
        """Return all facts as text."""
        lines = [f"seed {self.seed}", *self.happened]
        for producer, settled in self.accounts.items():
            lines.append(f"{producer.name} ({producer.topic}): {settled}")
            for name in ("lost", "doubled", "disordered", "undropped", "misplaced"):
                found = getattr(settled, name)
                if found:
                    lines.append(f"  {name}: {b' '.join(found[:200]).decode()}")
            for name in ("fatal", "failed", "aborted", "stuck"):
                lines += [f"  {name}: {text}" for text in getattr(settled.deliveries, name)[:5]]
        return "\n".join(lines) + "\n"


def run(world: World, seed: int, *, mild: bool, logs: Path) -> Round:
    """Run a round; keep the logs of its producers in a folder."""
    chance = random.Random(seed)
    result = Round(seed)
    world.wait_until_whole()
    world.forget_logs()
    world.interceptors_were_off = False
    producers = kinds(f"{PREFIX}{seed}-{int(time.time())}")
    admin = AdminClient({"bootstrap.servers": world.cluster.bootstrap_servers})
    for producer in producers:
        create_topic(admin, producer.topic, PARTITIONS)
    running = start(producers, world.bootstraps, logs)
    try:
        deliveries = _disturb(world, running, result, chance, mild=mild)
    finally:
        for program in running:
            program.kill()
    world.wait_until_whole()
    for producer in producers:
        settled = _settle(world, producer, deliveries[producer], result)
        if settled.deliveries.fatal:
            refused = refused_in_order(world.cluster, producer.topic)
            settled = replace(settled, refused_in_order=refused)
        if settled.deliveries.failed or settled.doubled:
            retries = unrecognized_batches(world.cluster, producer.topic)
            settled = replace(settled, unrecognized=retries)
        result.accounts[producer] = settled
    _delete_topics(admin, [producer.topic for producer in producers])
    return result


def _delete_topics(admin: AdminClient, topics: Sequence[str]) -> None:
    """Delete topics and their dead letter topics: the small heaps of brokers hold no 50 rounds."""
    existing = admin.list_topics(timeout=60).topics
    names = [name for topic in topics for name in (topic, topic + modes.DEAD) if name in existing]
    for deletion in admin.delete_topics(names).values():
        deletion.result(60)


def _disturb(
    world: World, running: list[Running], result: Round, chance: random.Random, *, mild: bool
) -> dict[Producer, DeliveryReports]:
    wait_until(
        lambda: all(program.has_begun for program in running),
        HANGS_AFTER_S,
        what="all producers to begin",
    )
    topics = [producer.topic for program in running for producer in program.producers]
    for disturbance in chosen(chance, mild=mild):
        time.sleep(chance.uniform(0.5, 1.5))
        began = time.time()
        description = disturbance(world, topics, chance)
        result.happened.append(f"{began:.3f} to {time.time():.3f}: {description}")
    time.sleep(1)
    for program in running:
        program.finish()
    return {
        producer: deliveries
        for program in running
        for producer, deliveries in program.deliveries().items()
    }


def _settle(
    world: World, producer: Producer, deliveries: DeliveryReports, result: Round
) -> Account:
    found = _read(world, producer, producer.topic)
    if producer.mode:
        dead = producer.topic + modes.DEAD
        letters = _read(world, producer, dead) if world.has_topic(dead) else []
        placement = modes.placement(producer.mode, producer.topic, found, letters)
        assert not world.has_topic(dead + modes.DEAD)
        misplaced = [*placement.misplaced]
        if producer.way is Way.ALONE and not result.has_restarted(world.alone):
            misplaced += placement.repeated  # the gateway that wrote them knows of them
        return replace(account(deliveries, placement.kept, drops=False), misplaced=misplaced)
    stored = [(key, value) for _, key, value, _ in found]
    return account(
        deliveries,
        stored,
        drops=producer.through_penstock,
        always=not world.interceptors_were_off,
    )


def _read(world: World, producer: Producer, topic: str) -> list:
    return read_topic(
        world.cluster.bootstrap_servers, topic, isolation=producer.isolation,
        settings={"fetch.wait.max.ms": "20"},
    )  # fmt: skip


def keep(world: World, result: Round, logs: Path, folder: Path) -> Path:
    """Write the facts of a round, and the logs of all its processes."""
    kept = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{result.seed}"
    shutil.copytree(logs, kept)
    (kept / "facts.txt").write_text(result.facts())
    world.write_logs(kept)
    return kept
