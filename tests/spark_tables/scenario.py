"""`split` with tables: batches, streams, crashes between commits, kills, errors."""

import contextlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrameWriter

import penstock.spark.session
from penstock import cli
from penstock.spark.execution.failures import SparkError
from penstock.spark.sink.judged_batches import JudgedBatch
from penstock.spark.sink.tables.delta_commits import DeltaCommits
from penstock.spark.sink.tables.iceberg import IcebergTable
from penstock.spark.sink.tables.problems import create_statement
from penstock.spark.sink.tables.written_tables import WrittenTables
from tests.java import QUICK
from tests.limits import HANGS_S
from tests.spark_tables.formats import FORMATS

folder, servers, jars = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
FORMAT, STEPS = FORMATS[sys.argv[4]], sys.argv[5:]
IS_DELTA = FORMAT.using == "delta"
CONF = {
    "spark.jars": jars,
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.python.authenticate.socketTimeout": "600s",  # a worker starts late on a busy machine
    "spark.driver.extraJavaOptions": " ".join(QUICK),
    "spark.sql.warehouse.dir": str(folder / "warehouse"),
    **FORMAT.settings(folder),
}
POLICIES = """
from penstock.policy import *

class NoBad(RecordValidationPolicy):
    def validate(self, topic, record):
        if (record.value or b"").startswith(b"bad"):
            raise InvalidRecordException("bad is not good")

class Nothing(RecordValidationPolicy):
    def validate(self, topic, record):
        raise InvalidRecordException("nothing is good")

class Changed(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return ""
    def process_record(self, key, value, topic, partition, headers):
        return ProduceRequestInterceptorResult(key, b"changed")
"""
(folder / "tables_policies.py").write_text(POLICIES)
produced: dict[str, int] = {}
began = time.monotonic()


def shown(what: str, *found: object) -> None:
    """Print what was done, and how long it took."""
    global began  # noqa: PLW0603 - a script
    now = time.monotonic()
    print(f"  {what:<44} {found}  {now - began:.1f} s", flush=True)
    began = now


def file(policy: str) -> str:
    """Write a configuration file with one policy; `Nothing` comes with an interceptor."""
    interceptor = "tables_policies.Changed" if policy == "Nothing" else ""
    path = folder / f"{policy}.properties"
    path.write_text(
        f"upstream.bootstrap.servers={servers}\n"
        f"record.validation.policy.class.name=tables_policies.{policy}\n"
        "topics.*.record.validation.policy=any\n"
        f"produce.request.interceptors={interceptor}\n"
    )
    return str(path)


def produce(name: str, count: int) -> str:
    """Produce records in two partitions, each tenth of them bad; return the topic."""
    topic, first = f"{name}-{folder.name}", produced.get(name, 0)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(first, first + count):
        value = b"bad %d" % number if number % 10 == 0 else b"good %d" % number
        producer.produce(topic, value, partition=number // 10 % 2)
    assert producer.flush(30) == 0
    produced[name] = first + count
    return topic


def table(name: str) -> str:
    """Create a table; return its name."""
    full = FORMAT.table(folder, name)
    spark.sql(create_statement(full, FORMAT.using))
    return full


def has(*tables: str) -> list[int]:
    """Return how many records tables have; none may be there twice."""
    counts = []
    for name in tables:
        spark.sql(f"REFRESH TABLE {name}")
        rows = spark.table(name).select("topic", "partition", "offset").collect()
        assert len(rows) == len(set(rows)), f"{name} has records twice"
        counts.append(len(rows))
    return counts


def split(topic: str, *more: str, policy: str = "NoBad", accepted: str, rejected: str) -> str:
    """Return the arguments of the command."""
    return ["split", file(policy), "--topic", topic, "--accepted", accepted, "--rejected",
            rejected, *more]  # fmt: skip


def run(arguments: list[str], code: int = 0) -> str:
    """Run a command on the session; return what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        found = cli.main(arguments)
    assert found == code, out.getvalue()
    assert "Traceback" not in out.getvalue(), out.getvalue()
    return out.getvalue()


def fails(arguments: list[str], text: str) -> None:
    """Run a command that ends with 2; its one error has a text."""
    (line,) = error_lines(run(arguments, 2))
    assert text in line


def error_lines(output: str) -> list[str]:
    """Return the lines of a command that ended before it judged a record."""
    return [line for line in output.splitlines() if not line.startswith(("usage", "plan "))]


def batches() -> None:
    """Split whole topics, then later records."""
    clean, dead = table("clean"), table("dead")
    topic = produce("batch", 400)
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    assert "360 accepted, 40 refused" in run(split(topic, **to))
    assert has(clean, dead) == [360, 40]
    letter = spark.table(dead).orderBy("partition", "offset").first()
    assert (letter.topic, letter.value) == (topic, b"bad 0")
    headers = {header.key: bytes(header.value) for header in letter.headers}
    assert headers["__penstock.message"] == b"bad is not good"
    fails(split(topic, **to), "has records that this run would write again")
    produce("batch", 100)
    assert "90 accepted, 10 refused" in run(split(topic, "--from", "0:200,1:200", **to))
    assert has(clean, dead) == [450, 50]
    shown("batches", *has(clean, dead))


@contextlib.contextmanager
def refusing(name: str, above: int = -1):
    """Have each commit to a table fail; to a Delta table, those of offsets above a number."""
    if IS_DELTA:
        spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT no CHECK (offset <= {above})")
        yield
        spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT no")
    else:
        spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.format.default'='no')")
        yield
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('write.format.default')")


REFUSED = (
    "Delta refuses what is written to a table: DELTA_VIOLATE_CONSTRAINT"
    if IS_DELTA
    else "IllegalArgumentException"
)


def undo(checkpoint: Path, number: int) -> None:
    """Remove Spark's own commit of a micro-batch, as if the stream had ended before it."""
    (checkpoint / "commits" / str(number)).unlink()
    (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)


def first_batches(name: str, *options: str, **to: str) -> int:
    """Have a first micro-batch of ten records done if Spark cannot repeat it; return how many."""
    if FORMAT.repeats_first:
        return 0
    run(split(produce(name, 10), *options, **to))
    return 1


def streams() -> None:
    """Split micro-batches; the stream ends at each possible moment."""
    clean, dead, checkpoint = table("streamed"), table("refused"), folder / "checkpoint"
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--available-now", "--checkpoint", str(checkpoint))
    first = first_batches("stream", *options, **to)
    topic = produce("stream", 400)
    with refusing(dead):
        output = run(split(topic, *options, **to), 3)
        assert has(clean, dead) == [360 + 9 * first, first], output
        assert REFUSED in output, output
    shown("a stream that ends between its tables", *has(clean, dead))

    output = run(split(topic, *options, policy="Nothing", **to))
    assert f"batch {first}: 360 accepted, 40 refused" in output, output
    assert has(clean, dead) == [360 + 9 * first, 40 + first]
    assert spark.table(dead).where("CAST(value AS STRING) LIKE 'bad%'").count() == 40 + first
    shown("continues with its stored verdicts", *has(clean, dead))

    undo(checkpoint, first)
    produce("stream", 100)
    output = run(split(topic, *options, **to))
    assert f"batch {first + 1}: 90 accepted, 10 refused" in output, output
    assert has(clean, dead) == [450 + 9 * first, 50 + first]
    shown("ends before its own commit, and continues", *has(clean, dead))

    again = ("--streaming", "--available-now", "--checkpoint", str(folder / "another"))
    fails(split(topic, *again, **to), "has records that this run would write again")
    run(split(topic, *again, "--from", "latest", **to))
    assert has(clean, dead) == [450 + 9 * first, 50 + first]
    shown("another checkpoint", *has(clean, dead))


def rows_of(topic: str, first: int, count: int):
    """Make a frame of accepted records."""
    return spark.sql(
        f"SELECT binary(NULL) key, binary('x') value, '{topic}' topic, 0 partition, id offset, "
        "timestamp(NULL) timestamp, 0 timestampType, "
        "cast(NULL AS array<struct<key:string,value:binary>>) headers, 'accepted' sink "
        f"FROM range({first}, {first + count})"
    )


def two_jobs_to_a_table() -> None:
    """No job can see another at its start: the table has no record that they will write."""
    clean, dead = table("shared"), table("shared_dead")
    tables = {"accepted": clean, "rejected": dead}
    first, second, ahead, whole = (WrittenTables(spark, tables) for _ in range(4))

    def write(job: WrittenTables, query: str, number: int, topic: str, offset: int) -> None:
        rows = rows_of(topic, offset, 10)
        job.write(rows, JudgedBatch(rows, query, number, f"{query}{number}", "checkpoint"))

    def fails_to_write(*arguments) -> None:
        try:
            write(*arguments)
        except SparkError as error:
            assert "twice, because another job writes the records of this topic" in str(error)
        else:
            raise AssertionError("two jobs wrote the same records")

    write(first, "first", 0, "shared", 0)
    write(first, "first", 0, "shared", 0)  # an attempt that follows
    write(second, "second", 0, "another", 0)
    write(first, "first", 1, "shared", 10)
    write(ahead, "ahead", 0, "shared", 40)
    write(first, "first", 2, "shared", 20)
    write(first, "first", 3, "shared", 30)
    assert has(clean) == [60]
    fails_to_write(second, "second", 1, "shared", 10)
    fails_to_write(WrittenTables(spark, tables), "second", 1, "shared", 10)  # started again
    fails_to_write(first, "first", 4, "shared", 40)  # what `ahead` had written long before
    try:
        whole.write(rows_of("shared", 0, 10), None)
    except SparkError as error:
        assert "shared-0 at offset" in str(error), error
        assert "micro-batch" in str(error), error
    else:
        raise AssertionError("a batch wrote the records of a stream")
    whole.write(rows_of("whole", 0, 10).union(rows_of("whole", 0, 10)), None)  # twice in its files
    shown("two jobs to a table")


@contextlib.contextmanager
def without_names():
    """Write commits without the names of micro-batches, as earlier versions did."""
    options, version_of = DataFrameWriter.options, DeltaCommits.version_of

    def some(self, **given):
        return options(self, **{name: of for name, of in given.items() if name != "userMetadata"})

    DataFrameWriter.options, DeltaCommits.version_of = some, lambda *_: None
    try:
        yield
    finally:
        DataFrameWriter.options, DeltaCommits.version_of = options, version_of


def commits_without_names() -> None:
    """A stream that ended between its Delta tables, whose commits have no names."""
    if not IS_DELTA:
        return
    clean, dead, checkpoint = table("nameless"), table("nameless_dead"), folder / "nameless"
    topic = produce("nameless", 100)
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--available-now", "--checkpoint", str(checkpoint))
    with without_names(), refusing(dead):
        assert "DELTA_VIOLATE_CONSTRAINT" in run(split(topic, *options, **to), 3)
    assert has(clean, dead) == [90, 0]
    assert "batch 0: 90 accepted, 10 refused" in run(split(topic, *options, **to))
    assert has(clean, dead) == [90, 10]
    shown("commits without names", *has(clean, dead))


def other_commits() -> None:
    """Others maintain the tables while a stream is between them; micro-batches without bad records."""
    clean, dead, checkpoint = table("others"), table("others_dead"), folder / "others"
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--available-now", "--checkpoint", str(checkpoint))
    run(split(produce("others", 1), *options, **to))
    topic = produce("others", 9)
    run(split(topic, *options, **to))
    assert has(clean, dead) == [9, 1]
    produce("others", 90)
    with refusing(dead, above=0):
        run(split(topic, *options, **to), 3)
    if IS_DELTA:
        spark.sql(f"OPTIMIZE {clean}")
        spark.sql(f"VACUUM {clean}")
    else:
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{clean}')")
    spark.sql(f"DELETE FROM {clean} WHERE offset < 3")
    run(split(topic, *options, **to))
    before = has(clean, dead)
    assert before[1] == 10
    shown("other commits", *before)


def beside_a_topic() -> None:
    """Accepted records in a table, dead letters in a topic."""
    only = table("only")
    options = ("--streaming", "--available-now", "--checkpoint", str(folder / "beside"))
    to = {"accepted": f"table:{only}", "rejected": f"dead-{folder.name}"}
    first = first_batches("beside", *options, **to)
    topic = produce("beside", 50)
    run(split(topic, *options, **to))
    undo(folder / "beside", first)
    run(split(topic, *options, **to))
    assert has(only) == [45 + 9 * first]
    to = {**to, "accepted": f"table:{table('in_a_batch')}"}
    assert "run again" not in run(split(topic, **to))
    fails(split(topic, **to), "has records that this run would write again")
    shown("a table beside a topic", *has(only))


def stored(topic: str) -> int:
    """Return how many offsets a topic has."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "none"})
    partitions = [TopicPartition(topic, number) for number in range(2)]
    ends = [consumer.get_watermark_offsets(partition, 30)[1] for partition in partitions]
    consumer.close()
    return sum(ends)


def old_checkpoints() -> None:
    """A checkpoint that was restored from a backup: its numbers are used again, with other records."""
    _old_checkpoint("old", f"table:{table('old_letters')}", is_deleted=False)
    _old_checkpoint("older", f"dead-{folder.name}", is_deleted=True)


def _old_checkpoint(name: str, rejected: str, *, is_deleted: bool) -> None:
    clean, checkpoint = table(f"{name}_clean"), folder / f"{name}-checkpoint"
    latest, backup = folder / f"{name}-latest", folder / f"{name}-backup"
    topic = produce(name, 50)
    arguments = split(topic, "--streaming", "--available-now", "--checkpoint", str(checkpoint),
                      accepted=f"table:{clean}", rejected=rejected)  # fmt: skip

    def written() -> tuple[int, int]:
        is_table = rejected.startswith("table:")
        letters = has(rejected.removeprefix("table:"))[0] if is_table else stored(rejected)
        return has(clean)[0], letters

    run(arguments)
    shutil.copytree(checkpoint, backup)
    produce(name, 50)
    run(arguments)
    if is_deleted:  # only the commits of the table have the numbers
        spark.sql(f"DELETE FROM {clean}")
    before = written()
    assert before[0] == (0 if is_deleted else 90)
    produce(name, 30)
    checkpoint.rename(latest)
    backup.rename(checkpoint)
    if is_deleted:
        output = run(arguments, 3)
        assert f"table:{clean} has a micro-batch 1 of --checkpoint {checkpoint} with" in output, (
            output
        )
        assert len(error_lines(output)) == 1, output
    else:
        fails(arguments, f"table:{clean} has records that this run would write again: {topic}-")
    assert written() == before
    shutil.rmtree(checkpoint)
    latest.rename(checkpoint)
    run(arguments)
    assert written() == (before[0] + 27, before[1] + 3)
    shown("an old checkpoint, then the latest", *written())


def kills() -> None:
    """A stream that is killed at random moments while records are produced."""
    clean, dead, chance = table("survivors"), table("letters"), random.Random(7)
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--checkpoint", str(folder / "killed"))
    first_batches("killed", *options, "--available-now", **to)
    topic = produce("killed", 200)
    arguments = split(topic, *options, **to)
    settings = [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]
    for _ in range(3):
        before = sum(has(clean, dead))
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments, "--master", "local[2]", *settings],
            start_new_session=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + HANGS_S
            while sum(has(clean, dead)) == before:
                assert process.poll() is None, "the stream has ended"
                assert time.monotonic() < deadline, "no commit"
                produce("killed", 50)
                time.sleep(0.5)
            time.sleep(chance.uniform(0, 2))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    run([*arguments, "--available-now"])
    total = produced["killed"]
    assert has(clean, dead) == [total * 9 // 10, total // 10], (total, has(clean, dead))
    shown("three kills", total, *has(clean, dead))


def where(name: str) -> str:
    """Return the folder of a table."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return {row[0]: row[1] for row in described}["Location"].removeprefix("file:")


VALUE = (
    "STRUCT<id: BIGINT NOT NULL, amount: DECIMAL(10,2), at: TIMESTAMP, tags: ARRAY<STRING>, "
    "old: STRING>"
)


def parsed_values() -> None:
    """Values that are parsed for the type of the table's column, also of a repeated micro-batch."""
    clean, dead, batch = FORMAT.table(folder, "parsed"), table("unfit"), table("unfit_batch")
    whole, topic = FORMAT.table(folder, "parsed_batch"), f"parsed-{folder.name}"
    # Delta can rename no column without this property.
    mapped = " TBLPROPERTIES ('delta.columnMapping.mode'='name')" if IS_DELTA else ""
    for name in (clean, whole):
        statement = create_statement(name, FORMAT.using)
        spark.sql(statement.replace("`value` BINARY", f"`value` {VALUE}") + mapped)
    producer = Producer({"bootstrap.servers": servers})

    def send(first: int) -> None:
        for number in range(first, first + 20):
            text = (
                b'{"id": %d, "amount": 0.1, "at": "2026-11-17T10:00:00Z", "tags": ["a", null], '
                b'"old": "o", "new": "n", "more": 5}'
            )
            producer.produce(topic, text % number, partition=number % 2)
        for value in (b"bad", b'{"id": "secret"}', b'{"amount": 1}', b"no JSON", None):
            producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0

    def ids(name: str) -> list[int]:
        spark.sql(f"REFRESH TABLE {name}")
        where = (
            "value.amount = 0.10 AND unix_seconds(value.at) = 1794909600 AND size(value.tags) = 2"
        )
        found = spark.sql(f"SELECT value.id FROM {name} WHERE {where} ORDER BY 1").collect()
        return [row[0] for row in found]

    send(0)
    to = {"accepted": f"table:{whole}", "rejected": f"table:{batch}"}
    nulls = 0 if IS_DELTA else 1  # Delta has no null for a struct with a field that is NOT NULL
    counts = f"{20 + nulls} accepted, {5 - nulls} refused"
    assert counts in run(split(topic, **to))
    assert has(whole, batch) == [20 + nulls, 5 - nulls]
    assert ids(whole) == list(range(20))
    assert spark.table(whole).where("value IS NULL").count() == nulls
    letters = spark.table(batch).where("value IS NOT NULL").collect()
    reasons = {bytes(row.value): {header.key: bytes(header.value) for header in row.headers}
               ["__penstock.message"].decode() for row in letters}  # fmt: skip
    unfit = f"the value does not fit table {whole}: "
    assert reasons == {
        b"bad": "bad is not good",
        b'{"id": "secret"}': f"{unfit}at /id is a string, not BIGINT",
        b'{"amount": 1}': f"{unfit}at /id is null or missing, but NOT NULL",
        b"no JSON": f"{unfit}is not JSON, and no policy of its topic reads it by a schema",
    }
    fails(split(topic, accepted=to["rejected"], rejected=to["accepted"]), "value is struct<")
    shown("parsed values", *has(whole, batch))

    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--available-now", "--checkpoint", str(folder / "parsed_stream"))
    run(split(topic, *options, **to))
    send(20)
    with refusing(dead, above=14):  # each sending has 15 offsets in partition 0
        run(split(topic, *options, **to), 3)
    run(split(topic, *options, policy="Nothing", **to))
    assert has(clean, dead) == [40 + 2 * nulls, 10 - 2 * nulls]
    assert ids(clean) == list(range(40))
    shown("parsed values of a stream", *has(clean, dead))

    def altered(column: str) -> list[tuple[object, int]]:
        spark.sql(f"REFRESH TABLE {clean}")
        found = spark.table(clean).where("value IS NOT NULL").groupBy(f"value.{column}").count()
        return sorted(((row[0], row[1]) for row in found.collect()), key=str)

    for number, refusing_table in enumerate((clean, dead), 2):
        send(20 * number)
        with refusing(refusing_table, above=15 * number - 1):
            run(split(topic, *options, **to), 3)
        names = ("old", "new") if number == 2 else ("new", "old")
        spark.sql(f"ALTER TABLE {clean} RENAME COLUMN value.{names[0]} TO {names[1]}")
        run(split(topic, *options, **to))
        count = 20 * number + 20
        each = 1 + number
        assert has(clean, dead) == [count + each * nulls, each * (5 - nulls)]
        assert ids(clean) == list(range(count))
        # The names of what the table had, and the values of what it got since.
        shown("a column that was renamed inside a micro-batch", altered(names[1]))
    assert altered("old") == [("n", 40), ("o", 40)], altered("old")

    calls, read = [], WrittenTables.read_value_column

    def alter_first(tables: WrittenTables):
        calls.append(tables)
        if len(calls) == (2 if IS_DELTA else 1):
            spark.sql(f"ALTER TABLE {clean} ADD COLUMNS (value.more BIGINT)")
        return read(tables)

    send(80)
    several = ("--batch-records", "10") if IS_DELTA else ()  # needs PySpark 4.2
    WrittenTables.read_value_column = alter_first
    run(split(topic, *options, *several, **to))
    WrittenTables.read_value_column = read
    assert ids(clean) == list(range(100))
    found = dict(altered("more"))
    assert found[None] + found[5] == 100, found
    assert found[5] >= (10 if IS_DELTA else 20), found
    shown("a column that was added while a stream runs", len(calls), found)


def expired_snapshots() -> None:
    """A stream that ended between its Iceberg tables, and snapshots that expired before it continues."""
    if IS_DELTA:
        return
    clean, dead, checkpoint = table("expired"), table("expired_dead"), folder / "expired"
    to = {"accepted": f"table:{clean}", "rejected": f"table:{dead}"}
    options = ("--streaming", "--available-now", "--checkpoint", str(checkpoint))
    topic = produce("expired", 50)
    run(split(topic, *options, **to))

    def between_its_tables(statement: str) -> None:
        produce("expired", 50)
        with refusing(dead):
            run(split(topic, *options, **to), 3)
        spark.sql(statement)
        spark.sql(f"CALL lake.system.rewrite_data_files(table => '{clean}', "
                  "options => map('rewrite-all', 'true'))")  # fmt: skip
        spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{clean}', retain_last => 1, "
            "older_than => TIMESTAMP '2100-01-01 00:00:00')"
        )
        names = spark.sql(f"SELECT summary['penstock.writer'] FROM {clean}.snapshots").collect()
        assert [row[0] for row in names] == [None]

    between_its_tables(f"DELETE FROM {clean} WHERE offset < 2")
    before = has(clean)
    run(split(topic, *options, **to))
    assert has(clean, dead) == [*before, 10]
    shown("expired snapshots", *has(clean, dead))

    run(split(produce("expired", 50), *options, **to))
    assert has(clean, dead) == [before[0] + 45, 15]
    last = produced["expired"] // 2
    between_its_tables(f"DELETE FROM {clean} WHERE offset = {last + 1}")
    before = has(clean, dead)
    output = run(split(topic, *options, **to), 3)
    assert "has some of the records of micro-batch 3, and its snapshots from then have" in output, (
        output
    )
    assert has(clean, dead) == before
    shown("a part of the records, and expired snapshots", *has(clean, dead))


def snapshots_that_were_rolled_back() -> None:
    """A micro-batch that is no ancestor of the current snapshot of an Iceberg table."""
    if IS_DELTA:
        return
    clean, dead = table("rolled_back"), table("rolled_back_dead")
    tables, topic = WrittenTables(spark, {"accepted": clean, "rejected": dead}), "rolled_back"

    def write(number: int) -> None:
        rows = rows_of(topic, 10 * number, 10)
        tables.write(rows, JudgedBatch(rows, "rolled", number, f"attempt{number}", "checkpoint"))

    write(0)
    earlier = spark.sql(f"SELECT snapshot_id FROM {clean}.snapshots").first()[0]
    write(1)
    write(1)
    assert has(clean) == [20]
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{clean}', {earlier})")
    assert has(clean) == [10]
    write(1)
    assert has(clean) == [20]
    shown("snapshots that were rolled back", *has(clean))


def two_processes_of_a_stream() -> None:
    """Two processes write one micro-batch to an Iceberg table at the same time."""
    if IS_DELTA:
        return
    clean, dead = table("twice"), table("twice_dead")
    first, second = (WrittenTables(spark, {"accepted": clean, "rejected": dead}) for _ in range(2))

    def write(tables: WrittenTables, number: int) -> None:
        rows = rows_of("twice", 10 * number, 10)
        tables.write(rows, JudgedBatch(rows, "twice", number, f"attempt{number}", "checkpoint"))

    def is_refused(tables: WrittenTables, number: int) -> None:
        try:
            write(tables, number)
        except SparkError as error:
            assert "micro-batch 1 of this stream twice" in str(error), error
        else:
            raise AssertionError("two processes wrote one micro-batch")

    write(first, 0)
    write(second, 0)
    assert has(clean) == [10]
    current = IcebergTable._current
    late = second._targets["accepted"].table
    found = [late._snapshots]

    def outdated(table: IcebergTable):
        return found.pop() if table is late and found else current(table)

    write(first, 1)
    IcebergTable._current = outdated  # it looked before `first` committed
    is_refused(second, 1)
    IcebergTable._current = current
    is_refused(first, 2)
    (warning,) = WrittenTables(spark, {"accepted": clean, "rejected": dead}).warnings
    assert warning.startswith(f"table:{clean} may have records twice: snapshots "), warning
    assert warning.endswith(" are penstock-twice-accepted micro-batch 1"), warning
    shown("two processes of a stream")


def a_job_between_a_commit_and_its_reading() -> None:
    """Another job commits later records to an Iceberg table before the own commit is read again."""
    if IS_DELTA:
        return
    clean, dead = table("between"), table("between_dead")
    first, second = (WrittenTables(spark, {"accepted": clean, "rejected": dead}) for _ in range(2))
    current, reads = IcebergTable._current, []

    def write(tables: WrittenTables, query: str, number: int, offset: int) -> None:
        rows = rows_of("between", offset, 10)
        tables.write(rows, JudgedBatch(rows, query, number, f"{query}{number}", "checkpoint"))

    def late(table: IcebergTable):
        if table is first._targets["accepted"].table:
            reads.append(table)
            if len(reads) == 2:
                write(second, "second", 0, 20)
        return current(table)

    write(first, "first", 0, 0)
    IcebergTable._current = late
    write(first, "first", 1, 10)
    IcebergTable._current = current
    try:
        write(first, "first", 2, 20)
    except SparkError as error:
        assert "between-0 at offset 20 twice, because another job" in str(error), error
    else:
        raise AssertionError("two jobs wrote the same records")
    shown("a job between a commit and its reading")


def a_replaced_table() -> None:
    """A stream that ended before its own commit; its Iceberg table was replaced by a copy."""
    if IS_DELTA:
        return
    spark.sql("USE lake.tables")
    clean, dead = table("replaced"), "replaced_dead"
    spark.sql(create_statement(dead, FORMAT.using))

    def write(number: int) -> None:
        rows = rows_of("replaced", 10 * number, 10)
        tables = WrittenTables(spark, {"accepted": clean, "rejected": dead})
        tables.write(rows, JudgedBatch(rows, "replaced", number, f"attempt{number}", "checkpoint"))

    write(0)
    write(1)
    spark.sql(f"CREATE OR REPLACE TABLE {clean} USING iceberg AS SELECT * FROM {clean}")
    write(1)
    assert has(clean) == [20]
    write(2)
    assert has(clean) == [30]
    spark.sql("USE spark_catalog.default")
    shown("a replaced table", *has(clean))


def errors() -> None:
    """Tables that cannot be written."""
    topic, good = produce("errors", 50), f"path:{folder / 'unused'}"

    def is_refused(name: str, text: str) -> None:
        fails(split(topic, accepted=name, rejected=good), text)

    spark.range(1).createOrReplaceTempView("a_view")
    is_refused("table:a_view", "has the format of a view; only Delta and Iceberg tables")
    missing, other, days, single = (
        FORMAT.table(folder, name) for name in ("missing", "other", "days", "one_table")
    )
    is_refused(
        f"table:{missing}", f"there is no such table; create it: CREATE TABLE {missing} (`key`"
    )
    spark.sql(f"CREATE TABLE {other} (key STRING, value BINARY) USING {FORMAT.using}")
    is_refused(f"table:{other}", "key is string, topic is missing, ")
    is_refused(f"path:{where(other)}", f"is {'a Delta' if IS_DELTA else 'an Iceberg'} table: write")
    statement = create_statement(days, FORMAT.using)
    if IS_DELTA:
        day = "day DATE GENERATED ALWAYS AS (CAST(timestamp AS DATE)))"
        statement = statement.replace(") USING", f", {day} USING") + " PARTITIONED BY (day)"
    else:
        statement = statement.replace(") USING", ", more INT) USING")
        statement += " PARTITIONED BY (days(timestamp))"
    spark.sql(statement)
    run(split(topic, accepted=f"table:{days}", rejected=good))
    filled = "day IS NOT NULL" if IS_DELTA else "more IS NULL"
    assert spark.table(days).where(filled).count() == 45
    if not IS_DELTA:
        spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('write.wap.enabled'='true')")
        spark.conf.set("spark.wap.branch", "stage")
        is_refused(f"table:{days}", "would not commit to its branch main: unset spark.wap.branch")
        spark.conf.unset("spark.wap.branch")
        dot, full = "lake.tables.`a.dot`", "lake.tables.not_null"
        spark.sql(create_statement(dot, FORMAT.using))
        is_refused(f"table:{dot}", "has a dot in back quotes")
        not_null = create_statement(full, FORMAT.using).replace(
            ") USING", ", more INT NOT NULL) USING"
        )
        spark.sql(not_null)
        is_refused(f"table:{full}", "the column more is NOT NULL")
        uuids = "lake.tables.uuids"
        of_struct = create_statement(uuids, FORMAT.using)
        spark.sql(of_struct.replace("`value` BINARY", "`value` STRUCT<id: BIGINT>"))
        run(split(topic, accepted=f"table:{uuids}", rejected=f"path:{folder / 'no_json'}"))
        java = spark.sparkContext._jvm.org.apache.iceberg
        loaded = java.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, uuids)
        loaded.updateSchema().addColumn("value", "u", java.types.Types.UUIDType.get()).commit()
        is_refused(f"table:{uuids}", "value.u has Iceberg's type uuid")
    if IS_DELTA:
        positive = FORMAT.table(folder, "positive")
        of_struct = create_statement(positive, FORMAT.using)
        spark.sql(of_struct.replace("`value` BINARY", "`value` STRUCT<id: BIGINT>"))
        spark.sql(f"ALTER TABLE {positive} ADD CONSTRAINT pos CHECK (value.id > 0)")
        is_refused(f"table:{positive}", "the constraint pos (value . id > 0) is of value")
        single = "one_table"
    spark.sql(create_statement(single, FORMAT.using))
    others = ("spark_catalog.default.one_table", f"delta.`{where(single)}`") if IS_DELTA else (
        "`lake`.tables.one_table",)  # fmt: skip
    for other in others:
        arguments = split(topic, accepted=f"table:{single}", rejected=f"table:{other}")
        same_table = f"--accepted table:{single} and --rejected table:{other} are the same table"
        fails(arguments, same_table)
    assert has(single) == [0]
    shown("errors")


spark = penstock.spark.session.start_session("tables", "local[2]", CONF)
penstock.spark.session.start_session = lambda *_, **__: spark  # type: ignore[assignment]
penstock.spark.session.stop_session = lambda _: None
shown("a session", spark.version)
for step in (
    streams,
    two_jobs_to_a_table,
    two_processes_of_a_stream,
    a_job_between_a_commit_and_its_reading,
    a_replaced_table,
    commits_without_names,
    other_commits,
    expired_snapshots,
    snapshots_that_were_rolled_back,
    batches,
    parsed_values,
    beside_a_topic,
    old_checkpoints,
    errors,
    kills,
):
    if not STEPS or step.__name__ in STEPS:
        step()
spark.stop()
