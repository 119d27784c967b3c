"""A soak, from the first broker to the verdict."""

import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.integration.reading import read_topic
from tests.soak import report
from tests.soak.diary import Diary
from tests.soak.faults import Faults
from tests.soak.judge import STANDSTILL_S, Account, judge, standstill
from tests.soak.plan import draw, in_order
from tests.soak.producer_reports import ProducerReport
from tests.soak.producers import CLIENTS
from tests.soak.programs import Client, clients
from tests.soak.records import Stored, dead_letter, has_right_marks, stored
from tests.soak.samples import Samples, now, thread_names
from tests.soak.segments import Epochs, batches
from tests.soak.stage import Stage
from tests.soak.topic_names import DEAD, MARKED, TOPICS, TRANSACTIONS

LAST_RESPONSES_S: Final = 200.0
"""The time in which clients have to end: a delivery, and another for a transaction."""
_REST_S: Final = 90.0


class Soak:
    """A soak of several minutes, with its evidence in a folder."""

    def __init__(
        self, minutes: float, seed: int, rate: int, folder: Path, without: Sequence[str] = ()
    ) -> None:
        self._seconds = minutes * 60
        self._names = [name for name in CLIENTS if name not in without]
        self._seed = seed
        self._rate = rate
        self._folder = folder
        self._diary = Diary(folder / "diary.txt")
        self._sent = (0.0, 0.0)
        self._findings: list[str] = []
        self._report: list[str] = []

    def run(self) -> list[str]:
        """Run it; return the findings."""
        plan = draw(self._seed, self._seconds)
        planned = in_order(plan)
        (self._folder / "plan.txt").write_text("".join(f"{fault}\n" for fault in planned))
        found = clients(self._names, self._seed, self._folder)
        with ExitStack() as ends:
            ends.callback(self._end_clients, found)
            self._diary.log("three brokers and two gateways start")
            stage = ends.enter_context(Stage(self._folder / "stage", self._seed))
            ends.callback(stage.write_logs, self._folder)
            faults = Faults(stage, self._diary, plan)
            samples = Samples(stage, self._folder / "samples.csv")
            ends.callback(samples.end)
            ends.callback(faults.end)
            before = now([], stage.lasting.running.pid)
            self._note_threads("before", stage)
            self._diary.begin()
            self._disturb(stage, found, faults, samples)
            after = self._rest(stage, before)
            self._note_threads("after", stage)
            accounts = self._accounts(stage, found)
        self._write_report(accounts, faults, samples, [fault.kind for fault in planned])
        text, not_back = report.at_rest(before, after)
        self._report.append(f"resources without clients:\n{text}")
        self._findings += not_back + self._diary.findings
        (self._folder / "report.txt").write_text(self.text)
        return self._findings

    @property
    def text(self) -> str:
        """The report as text."""
        return "\n\n".join(self._report) + "\n"

    def _disturb(
        self, stage: Stage, found: Sequence[Client], faults: Faults, samples: Samples
    ) -> None:
        samples.start()
        began = time.time()
        for client in found:
            client.start(stage.address, self._rate)
        self._diary.log(f"{sum(len(c.producers) for c in found)} producers of "
                        f"{', '.join(client.name for client in found)}")  # fmt: skip
        faults.start()
        while self._diary.seconds < self._seconds:
            time.sleep(0.5)
            for client in found:
                if client.ended:
                    raise RuntimeError(f"{client.name} ended by itself: {client.complaints()}")
            for gateway in stage.gateways:
                if gateway.ended_by_itself:
                    raise RuntimeError(f"{gateway.name} ended by itself")
        faults.end()
        samples.end()
        stage.wait_until_whole()
        self._diary.log("no more faults, nothing more is sent; last answers")
        self._sent = (began, time.time())
        for client in found:
            client.finish()
        deadline = time.monotonic() + LAST_RESPONSES_S
        for client in found:
            if not client.wait(max(0.0, deadline - time.monotonic())):
                self._findings.append(f"{client.name} does not end")
                client.kill()

    def _rest(self, stage: Stage, before: dict[str, float]) -> dict[str, float]:
        """Wait until connections and their threads have ended."""
        pid = stage.lasting.running.pid
        deadline = time.monotonic() + _REST_S
        after = now([], pid)
        while report.at_rest(before, after)[1] and time.monotonic() < deadline:
            time.sleep(1)
            after = now([], pid)
        return after

    def _note_threads(self, when: str, stage: Stage) -> None:
        names = thread_names(stage.lasting.running.pid)
        with (self._folder / "threads.txt").open("a") as evidence:
            evidence.write(f"{when}: {names}\n")

    def _accounts(
        self, stage: Stage, found: Sequence[Client]
    ) -> list[tuple[Account, ProducerReport]]:
        self._diary.log("reading back what is stored")
        records = self._stored(stage)
        accounts = []
        for client in found:
            for producer, reported in client.reports().items():
                account = judge(producer, reported, records.pop(producer.name, []))
                still_s = standstill(reported, *self._sent)
                if still_s > STANDSTILL_S:
                    self._findings.append(
                        f"{producer.name} had no acknowledgement for {still_s:.0f} s"
                    )
                accounts.append((account, reported))
                if not reported.ended:
                    self._findings.append(f"{producer.name} did not end by itself")
        self._findings += [f"records of an unknown producer {name}" for name in records]
        return accounts

    def _stored(self, stage: Stage) -> dict[str, list[Stored]]:
        found: dict[str, list[Stored]] = defaultdict(list)
        foreign: Counter[str] = Counter()
        for topic in TOPICS:
            isolation = "read_committed" if topic == TRANSACTIONS else "read_uncommitted"
            messages = read_topic(stage.upstream, topic, isolation=isolation, full=True)
            headers = list(batches(stage.cluster, topic))
            epochs = Epochs(headers)
            with (self._folder / f"{topic}.stored").open("w") as evidence:
                for message in messages:
                    try:
                        record = stored(message)
                    except (ValueError, KeyError):
                        foreign[topic] += 1
                        continue
                    record = record._replace(epoch=epochs.of(record.partition, message.offset()))
                    foreign[topic] += topic == MARKED and not has_right_marks(
                        message, record.letter
                    )
                    found[record.producer].append(record)
                    evidence.write("\t".join(map(str, (message.offset(), *record))) + "\n")
            with (self._folder / f"{topic}.batches").open("w") as evidence:
                for batch in headers:
                    evidence.write("\t".join(map(str, batch)) + "\n")
        for record in self._dead_letters(stage, foreign):
            found[record.producer].append(record)
        self._findings += [
            f"{topic} has {count} records that no producer sent, or with wrong headers"
            for topic, count in foreign.items()
            if count
        ]
        return found

    def _dead_letters(self, stage: Stage, foreign: Counter[str]) -> Iterable[Stored]:
        """Return dead letters as `redrive` reads them: each id once."""
        existing = stage.admin.list_topics(timeout=20).topics
        if f"{DEAD}.dead" in existing:
            self._findings.append("dead letters were judged")
        if DEAD not in existing:
            self._findings.append("there are no dead letters")
            return []
        found: dict[bytes, Stored] = {}
        for message in read_topic(stage.upstream, DEAD, full=True):
            try:
                letter_id, record = dead_letter(message)
            except (ValueError, KeyError):
                foreign[DEAD] += 1
                continue
            found.setdefault(letter_id, record)
        return found.values()

    def _write_report(
        self,
        accounts: list[tuple[Account, ProducerReport]],
        faults: Faults,
        samples: Samples,
        planned: list[str],
    ) -> None:
        self._report.append(report.table(accounts))
        self._report.append(f"why records failed:\n{report.reasons(accounts)}")
        done = ", ".join(f"{count} x {kind}" for kind, count in sorted(self._diary.done.items()))
        passing = sum(account.counts["stored"] for account in faults.topics.accounts)
        rest = report.not_reached(planned, self._diary.done)
        self._report.append(f"done: {done}\nplanned, and not reached in time: {rest or 'nothing'}\n{len(faults.topics.accounts)} topics were created and deleted, "
                            f"{passing} records were stored in them")  # fmt: skip
        text, not_flat = report.uses(samples.of_lasting())
        self._report.append(f"resources of the lasting gateway, after a warm-up:\n{text}")
        self._findings += not_flat
        self._findings += report.shortfalls(accounts, self._diary.done)
        for account, _ in accounts:
            for what, count in account.findings.items():
                examples = ", ".join(account.examples[what])
                self._findings.append(
                    f"{account.producer.name}: {what}: {count} records: {examples}"
                )

    def _end_clients(self, found: Sequence[Client]) -> None:
        for client in found:
            client.kill()


def remove_data(folder: Path) -> None:
    """Remove the brokers' data: their logs are in the evidence."""
    shutil.rmtree(folder / "stage" / "kafka", ignore_errors=True)
