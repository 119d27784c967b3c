"""`penstock redrive` and `penstock redact`."""

import json
import time

import pytest

from penstock.jobs import redrive_job
from penstock.kafka.client.connections.connection import Connection
from penstock.kafka.client.positions import Position, commit_positions
from tests.integration.reading import read_topic, values_of
from tests.jobs.batches.letters import connect, share_group, spring, streams
from tests.kafka.client.settings import FILE
from tests.spark.conftest import BOTH, NO_BAD
from tests.spark.jobs.record_folders import read_folder

NOW = 1_700_000_000_000


@pytest.fixture
def split(command, configured, produce, topic):
    """A topic that was split: its file, its good topic, its dead letters."""
    source, good, dead = topic("in", 2), topic("good", 2), topic("dead", 2)
    produce(source, [
        {"value": b"bad%d" % i, "key": b"k%d" % i, "headers": [("own", b"1")], "partition": i % 2}
        for i in range(20)
    ])  # fmt: skip
    file = configured()
    assert (
        command("split", file, "--topic", source, "--accepted", good, "--rejected", dead).code == 0
    )
    return file, good, dead, source


def redriven(split, *more):
    """Return the arguments that return the letters of the source of `split` to its good topic."""
    file, good, dead, source = split
    return ("redrive", file, "--from", dead, "--to", good, "--topic", source, *more)


def repair(file, name="Repair"):
    [module] = file.parent.glob("policies_*.py")
    return f"{module.stem}.{name}"


@BOTH
def test_accepted_letters_return_once_and_the_rest_waits_for_a_better_repair(command, split, kafka):
    file, good, _, _ = split
    first = redriven(split, "--with", repair(file))

    dry = command(*first, "--dry-run")
    assert "18 returned, 2 again, 0 parked" in dry.out
    assert read_topic(kafka.bootstrap_servers, good) == []

    assert "18 returned, 2 again, 0 parked" in command(*first).out
    stored = read_topic(kafka.bootstrap_servers, good)
    assert len(stored) == 18
    for partition, key, value, headers in stored:
        number = int(key[1:])
        assert value == b"good%d" % number
        assert partition == number % 2
        names = [name for name, _ in headers]
        assert names == ["own", "__penstock.replays", "__penstock.timestamp"]
        assert dict(headers)["__penstock.replays"] == b"1"
        assert int(dict(headers)["__penstock.timestamp"]) <= time.time() * 1000

    again = command(*first)
    assert "0 returned, 2 again, 0 parked" in again.out
    assert len(read_topic(kafka.bootstrap_servers, good)) == 18

    better = command(*redriven(split, "--with", repair(file, "RepairAll")))
    assert "2 returned, 0 again, 0 parked" in better.out
    stored = read_topic(kafka.bootstrap_servers, good)
    assert sorted(values_of(stored)) == sorted(b"good%d" % i for i in range(20))
    assert {dict(h)["__penstock.replays"] for _, k, _, h in stored if k in {b"k7", b"k17"}} == {
        b"3"
    }
    assert "0 returned, 0 again" in command(*first).out


def later_letters(source):
    """Dead letters that policies accept now, some of which a broker refuses."""
    in_a_year = int(time.time() * 1000) + 365 * 86_400_000
    kinds = {"fine": (b"k", b"good", 5), "future": (b"k", b"good", in_a_year),
             "keyless": (None, b"good", 5), "large": (b"k", b"good" * 900, 5)}  # fmt: skip
    return [
        {"key": key, "value": value, "partition": number % 2, "headers": [
            ("number", b"%d" % number), ("__dlq.errors.topic", source.encode()),
            ("__dlq.errors.partition", b"%d" % (number % 2)), ("__dlq.id", b"%d" % number),
            ("__penstock.timestamp", b"%d" % timestamp),
        ]}
        for number, (key, value, timestamp) in enumerate(
            kinds[kind] for kind in ["fine", "future", "keyless", "fine", "fine", "large"] * 10
        )
    ]  # fmt: skip


@pytest.mark.cases(1)
@BOTH
def test_letters_that_the_broker_refuses_wait_and_the_others_return_once(
    command, configured, produce, topic, kafka
):
    limits = {"max.message.bytes": "3000", "message.timestamp.after.max.ms": "3600000"}
    good = topic("good", 2, **{"cleanup.policy": "compact", **limits})
    dead = topic("dead", 2)
    produce(dead, later_letters(good))
    redrive = ("redrive", configured(), "--from", dead, "--to", good)

    done = command(*redrive)
    assert done.code == 1
    assert "30 returned, 0 again, 0 parked, 0 dropped, 30 refused" in done.out
    for code, why in [("INVALID_TIMESTAMP (32)", "message.timestamp.after.max.ms"),
                      ("INVALID_RECORD (87)", "a record must have a key"),
                      ("MESSAGE_TOO_LARGE (10)", "max.message.bytes")]:  # fmt: skip
        (line,) = [line for line in done.out.splitlines() if code in line]
        assert line.startswith(f"10 refused by the broker: {code}: topic {good}: ")
        assert why in line
    returned = read_topic(kafka.bootstrap_servers, good, isolation="read_committed")
    numbers = [int(dict(headers)["number"]) for *_, headers in returned]
    expected = [number for number in range(60) if number % 6 in {0, 3, 4}]
    assert sorted(numbers) == expected
    waiting = read_topic(kafka.bootstrap_servers, dead, isolation="read_committed")
    codes = {int(dict(headers)["number"]): dict(headers)["__penstock.code"]
             for *_, headers in waiting if "__penstock.code" in dict(headers)}  # fmt: skip
    assert codes == {number: [b"", b"32", b"87", b"", b"", b"10"][number % 6]
                     for number in range(60) if number not in expected}  # fmt: skip

    again = command(*redrive)
    assert again.code == 1
    assert "0 returned, 0 again, 0 parked, 0 dropped, 30 refused" in again.out


@pytest.mark.cases(1)
@BOTH
def test_a_letter_keeps_its_origin(command, split, kafka):
    _, _, dead, _ = split
    before = {k: h for _, k, _, h in read_topic(kafka.bootstrap_servers, dead)}
    command(*redriven(split))
    appended = read_topic(kafka.bootstrap_servers, dead, full=True)[-1]
    assert appended.offset() >= 10
    was, now = dict(before[appended.key()]), dict(appended.headers())
    for name in ("topic", "partition", "offset"):
        assert now[f"__dlq.errors.{name}"] == was[f"__dlq.errors.{name}"]
    assert now["__penstock.timestamp"] == was["__penstock.timestamp"]
    assert (was["__penstock.replays"], now["__penstock.replays"]) == (b"0", b"1")
    assert len(appended.headers()) == len(before[appended.key()])


@BOTH
@pytest.mark.slow
def test_letters_that_fail_too_often_are_parked(command, split, kafka):
    _, _, dead, _ = split
    arguments = redriven(split, "--max-replays", "2")
    assert "0 returned, 20 again, 0 parked" in command(*arguments).out
    assert "0 returned, 0 again, 20 parked" in command(*arguments).out
    assert "0 returned, 0 again, 0 parked" in command(*arguments).out
    assert len(read_topic(kafka.bootstrap_servers, f"{dead}.parked")) == 20


@BOTH
@pytest.mark.slow
def test_a_parked_letter_returns_and_waits_as_any_other(command, split, kafka):
    file, good, dead, source = split
    arguments = redriven(split, "--max-replays", "2")
    assert "20 again" in command(*arguments).out
    assert "20 parked" in command(*arguments).out
    from_parked = ("redrive", file, "--from", f"{dead}.parked", "--to", good, "--topic", source,
                   "--max-replays", "2")  # fmt: skip
    assert "0 returned, 20 again, 0 parked" in command(*from_parked).out
    output = command(*from_parked, "--with", repair(file)).out
    assert "18 returned, 0 again, 2 parked" in output
    assert len(read_topic(kafka.bootstrap_servers, good)) == 18


@pytest.mark.cases(1)
@BOTH
def test_a_dry_run_makes_no_topic(command, split, admin):
    file, _, dead, _ = split
    with file.open("a") as properties:
        properties.write(f"redrive.places.topic={dead}-places\n")
    done = command(*redriven(split, "--dry-run"))
    assert "20 again" in done.out
    names = admin.list_topics(timeout=60).topics
    assert not {f"{dead}.parked", f"{dead}-places"} & names.keys()


@BOTH
def test_the_parking_topic_is_no_target(command, split, topic):
    file, _, dead, _ = split
    done = command("redrive", file, "--from", dead, "--to", f"{dead}.parked")
    assert (done.code, "--to" in done.err) == (2, True), done


@BOTH
@pytest.mark.slow
def test_a_record_that_goes_round_in_circles_is_parked(command, configured, split, topic, kafka):
    """Returned, dead-lettered again by another policy, returned: the count goes with it."""
    file, good, dead, source = split
    no_good = configured(
        policies="""
from penstock.policy import *
class NoBad(RecordValidationPolicy):
    def validate(self, topic, record): raise InvalidRecordException("nothing is good")
"""
    )
    parked = None
    for _ in range(4):
        output = command("redrive", file, "--from", dead, "--to", good, "--topic",
                         f"{source},{good}", "--with", repair(file, "RepairAll"), "--max-replays", "3").out  # fmt: skip
        if " 20 parked" in output:
            parked = True
            break
        none = topic("none")
        assert command("split", no_good, "--topic", good, "--accepted", none, "--rejected", dead,
                       "--from", _end_before(kafka, good, 20)).code == 0  # fmt: skip
    assert parked


def _end_before(kafka, name, count):
    records = read_topic(kafka.bootstrap_servers, name, full=True)[-count:]
    firsts = {}
    for record in records:
        firsts.setdefault(record.partition(), record.offset())
    return ",".join(f"{p}:{o}" for p, o in firsts.items())


@BOTH
@pytest.mark.slow
def test_a_crash_before_the_end_loses_and_doubles_nothing(command, split, kafka, monkeypatch):
    from penstock.jobs import writing_job

    file, good, _, _ = split
    arguments = redriven(split, "--with", repair(file, "RepairAll"))
    write_raw = writing_job.write_raw

    def crash(runner, ranges, work, **options):
        write_raw(runner, ranges[:1], work, **options)
        raise OSError("crashed")

    with monkeypatch.context() as patch:
        patch.setattr(writing_job, "write_raw", crash)
        assert command(*arguments).code == 3
    assert len(read_topic(kafka.bootstrap_servers, good)) == 10
    assert "10 returned" in command(*arguments).out
    stored = values_of(read_topic(kafka.bootstrap_servers, good))
    assert sorted(stored) == sorted(b"good%d" % i for i in range(20))
    assert "0 returned" in command(*arguments).out


@pytest.mark.cases(1)
@BOTH
def test_the_place_outlasts_committed_offsets(command, split, kafka, admin):
    file, good, _, _ = split
    arguments = redriven(split, "--with", repair(file, "RepairAll"))
    assert "20 returned" in command(*arguments).out
    groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
    [group] = [group for group in groups if group.startswith(f"penstock-redrive-{good}-")]
    admin.delete_consumer_groups([group])[group].result(60)
    assert "0 returned, 0 again" in command(*arguments).out


@pytest.mark.cases(1)
@BOTH
def test_letters_whose_log_ends_before_the_place_are_no_success(command, split, kafka, admin):
    """As after an unclean election: records that are written there since have not been judged."""
    _, good, dead, _ = split
    arguments = redriven(split)
    assert "20 again" in command(*arguments, "--max-replays", "9").out
    groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
    [group] = [group for group in groups if group.startswith(f"penstock-redrive-{good}-")]
    with Connection({"bootstrap.servers": kafka.bootstrap_servers}, FILE) as connection:
        commit_positions(connection, group, {(dead, 0): Position(9000)})
    for more in ((), ("--dry-run",)):
        done = command(*arguments, *more)
        assert done.code == 3, done
        assert f"{dead}-0: the log ends at offset " in done.err
        assert "before 9000, the position of redrive" in done.err
        assert f"kafka-consumer-groups --group {group} --topic {dead} --reset-offsets" in done.err


@pytest.mark.cases(1)
@BOTH
def test_without_a_place_the_start_is_required(command, split, admin, topic):
    """The topic of places was replaced, and offsets have expired."""
    file, good, dead, source = split
    arguments = (
        "--from",
        dead,
        "--to",
        good,
        "--topic",
        source,
        "--with",
        repair(file, "RepairAll"),
    )
    assert "20 returned" in command("redrive", file, *arguments).out
    groups = [group.group_id for group in admin.list_consumer_groups().result(60).valid]
    for group in groups:
        if group.startswith(f"penstock-redrive-{good}-"):
            admin.delete_consumer_groups([group])[group].result(60)
    file.write_text(file.read_text() + f"redrive.places.topic={dead}-places\n")
    done = command("redrive", file, *arguments)
    assert (done.code, "--reset-offsets" in done.err) == (3, True), done


@pytest.mark.slow
@BOTH
def test_folders(command, configured, produce, topic, spark, tmp_path):
    source = topic("in", 2)
    produce(source, [{"value": b"bad%d" % i} for i in range(20)] + [{"value": b"good"}])
    file = configured()
    good, dead = tmp_path / "good", tmp_path / "dead"
    command("split", file, "--topic", source, "--accepted", f"path:{good}", "--rejected",
            f"path:{dead}")  # fmt: skip
    arguments = ("redrive", file, "--from", f"path:{dead}", "--to", f"path:{good}", "--with",
                 repair(file))  # fmt: skip
    assert "18 returned, 2 again" in command(*arguments).out
    assert "0 returned, 2 again" in command(*arguments).out
    assert spark.read.parquet(str(good)).count() == 19
    assert spark.read.parquet(str(dead)).count() == 2
    values = {bytes(r.value) for r in spark.read.parquet(str(good)).collect()}
    assert b"good18" in values


@pytest.mark.parametrize("runner", ["local"])
def test_a_run_that_was_killed_before_its_first_record(command, split, monkeypatch, runner):
    """The topic of parked letters is there already, and no position is lost."""
    file, _, _, _ = split
    arguments = redriven(split)

    def is_killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(redrive_job, "write_ranges", is_killed)
        assert command(*arguments).code not in {0, 1}
    done = command(*arguments, "--with", repair(file))
    assert "18 returned, 2 again, 0 parked" in done.out, done


@pytest.mark.slow
@BOTH
def test_from_a_folder_to_a_topic_and_the_reverse(
    command, configured, produce, topic, kafka, spark, tmp_path
):
    source, good, dead = topic("in", 2), topic("good", 2), topic("dead")
    moment = int(time.time() * 1000) - 5000
    produce(source, [
        {"value": b"bad%d" % i, "key": b"k%d" % i, "timestamp": moment + i} for i in range(20)
    ])  # fmt: skip
    file = configured()
    for number, rejected in enumerate((f"path:{tmp_path / 'dead'}", dead)):
        accepted = f"path:{tmp_path / str(number)}"
        command("split", file, "--topic", source, "--accepted", accepted, "--rejected", rejected)
    arguments = ("redrive", file, "--from", f"path:{tmp_path / 'dead'}", "--to", good, "--topic",
                 source, "--with", repair(file))  # fmt: skip
    assert "18 returned, 2 again, 0 parked" in command(*arguments, "--dry-run").out
    assert "18 returned, 2 again" in command(*arguments).out
    assert "0 returned, 2 again" in command(*arguments).out
    returned = read_topic(kafka.bootstrap_servers, good, full=True)
    stamps = {record.key(): record.timestamp()[1] for record in returned}
    assert stamps == {b"k%d" % i: moment + i for i in range(20) if i not in (7, 17)}
    assert all(dict(record.headers())["__penstock.replays"] == b"1" for record in returned)

    arguments = ("redrive", file, "--from", dead, "--to", f"path:{tmp_path / 'back'}", "--with",
                 repair(file))  # fmt: skip
    assert "18 returned, 2 again" in command(*arguments, "--dry-run").out
    assert "18 returned, 2 again" in command(*arguments).out
    assert "0 returned, 2 again" in command(*arguments).out
    assert spark.read.parquet(str(tmp_path / "back")).count() == 18
    assert len(read_topic(kafka.bootstrap_servers, dead)) == 24


@pytest.mark.slow
@BOTH
def test_a_time_in_a_header_that_spark_cannot_represent_ends_nothing(
    command, configured, produce, topic, spark, tmp_path
):
    """Anybody can write the header: the row has no timestamp then, but the header."""
    dead = topic("dead")
    times = [b"9" * 18, b"-" + b"9" * 18, b"-5000"]
    produce(dead, [
        {"value": time, "headers": [
            ("__dlq.errors.topic", b"orders"), ("__penstock.timestamp", time),
        ]}
        for time in times
    ])  # fmt: skip
    done = command("redrive", configured(), "--from", dead, "--to", f"path:{tmp_path / 'back'}")
    assert "3 returned" in done.out, done
    returned = spark.read.parquet(str(tmp_path / "back")).selectExpr(
        "value", "unix_millis(timestamp) AS time", "element_at(headers, -1) AS header"
    )
    rows = {bytes(row["value"]): (row["time"], *row["header"]) for row in returned.collect()}
    stamps = dict(zip(times, (None, None, -5000), strict=True))
    assert rows == {time: (stamps[time], "__penstock.timestamp", time) for time in times}


@pytest.mark.cases(1)
@BOTH
def test_letters_of_one_topic_return_and_the_others_stay(
    command, configured, produce, topic, kafka, admin
):
    """Of four writers, in one topic; then the letters of the other topic."""
    orders, payments, dead = topic("orders", 3), topic("payments", 3), topic("dead")
    produce(orders, [{"value": b"kept", "key": b"k", "headers": [("own", b"1")], "partition": 2}])
    letters = [
        connect(orders, 1, 7, NOW, b"k", b"connect"), spring(orders, 2, 8, NOW, b"k", b"spring"),
        streams(orders, 0, 9, NOW, b"k", b"streams"), share_group(orders, 2, 0),
        share_group(orders, 1, 99), connect(payments, 1, 7, NOW, b"k", b"bad"),
        share_group(payments, 2, 0),
    ]  # fmt: skip
    produce(dead, [
        {"key": key, "value": value, "headers": [(*header,) for header in headers]}
        for _, key, value, headers in letters
    ])  # fmt: skip
    arguments = ("redrive", configured(), "--from", dead, "--to")
    dry = command(*arguments, orders, "--dry-run")
    done = command(*arguments, orders)
    for found in (dry, done):
        assert "4 returned, 1 again, 0 parked" in found.out, found
        assert f"2 letters of other topics stay: {payments} 2" in found.out
    returned = read_topic(kafka.bootstrap_servers, orders, isolation="read_committed")
    assert sorted((partition, value) for partition, _, value, _ in returned) == [
        (0, b"streams"), (1, b"connect"), (2, b"kept"), (2, b"kept"), (2, b"spring"),
    ]  # fmt: skip
    first, again = (headers for *_, value, headers in returned if value == b"kept")
    assert (first, again[0], len(again)) == ([("own", b"1")], ("own", b"1"), 3)
    # The others wait for their run, also with another target.
    done = command(*arguments, orders, "--topic", payments)
    assert "0 returned, 2 again, 0 parked" in done.out, done
    assert f"letters of other topics stay: {orders} " in done.out
    assert "0 returned, 1 again, 0 parked" in command(*arguments, orders).out


@pytest.mark.cases(1)
@BOTH
@pytest.mark.parametrize("kind", ["topic", "folder"])
def test_other_records_than_letters_are_refused_before_anything_is_written(
    command, configured, produce, topic, kafka, admin, tmp_path, kind
):
    orders, dead = topic("orders"), topic("dead")
    fine = connect(orders, 0, 7, NOW, b"k", b"fine")
    produce(dead, [{"value": b"fine", "headers": [(*header,) for header in fine.headers]},
                   {"value": b"no letter", "headers": [("own", b"1")]}])  # fmt: skip
    to = f"path:{tmp_path / 'back'}" if kind == "folder" else orders
    done = command("redrive", configured(), "--from", dead, "--to", to)
    assert done.code == 2, done
    assert f"--from {dead}: 1 records are not dead letters" in done.err
    assert f"such as {dead}-0, offset 1; nothing is written" in done.err
    assert "no letter" not in done.err
    assert read_topic(kafka.bootstrap_servers, orders) == []
    assert not (tmp_path / "back").exists()
    assert f"{dead}.parked" not in admin.list_topics(timeout=60).topics


@pytest.mark.cases(1)
@BOTH
def test_letters_of_other_topics_stay_in_a_folder(command, configured, tmp_path):
    dead, back = tmp_path / "dead", tmp_path / "back"
    dead.mkdir()
    lines = [
        {"value": f"{name}-{number}", "topic": "dead", "partition": 0, "offset": number,
         "timestamp": NOW, "key": "k",
         "headers": [{"key": "own", "value": "1"}, {"key": "__connect.errors.topic", "value": name}]}
        for number, name in enumerate(["orders", "payments", "orders", "users"])
    ]  # fmt: skip
    (dead / "a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    arguments = ("redrive", configured(), "--from", f"path:{dead}", "--to", f"path:{back}",
                 "--topic", "orders")  # fmt: skip
    for more in (("--dry-run",), ()):
        done = command(*arguments, *more)
        assert "2 returned, 0 again" in done.out, done
        assert "2 letters of other topics stay: payments 1, users 1" in done.out
    rows = [row for rows in read_folder(back) for row in rows]
    assert sorted(row["value"] for row in rows) == [b"orders-0", b"orders-2"]
    left = [row for rows in read_folder(dead) for row in rows]
    assert sorted(row["value"] for row in left) == [b"payments-1", b"users-3"]
    names = [header["key"] for row in left for header in row["headers"]]
    assert names == ["own", "__connect.errors.topic"] * 2
    assert "0 returned, 0 again" in command(*arguments).out


@pytest.mark.cases(1)
@BOTH
def test_a_warning_names_a_target_that_no_policy_judges(command, configured, produce, topic):
    orders, dead = topic("orders"), topic("dead")
    fine = connect(orders, 0, 7, NOW, b"k", b"bad")
    produce(dead, [{"value": b"bad", "headers": [(*header,) for header in fine.headers]}])
    for policies in ({}, {"produce.request.interceptors": "policies.Repair"}):
        done = command("redrive", configured(policies), "--from", dead, "--to", orders, "--dry-run")
        assert "1 returned" in done.out, done
        assert f"judges topic {orders}" in done.err


@pytest.mark.cases(1)
@BOTH
def test_redact(command, configured, produce, topic, kafka, tmp_path, spark):
    source, target = topic("in", 2), topic("redacted", 2)
    moment = int(time.time() * 1000) - 5000
    produce(source, [
        {"value": v, "key": b"k", "headers": [("own", b"1")], "timestamp": moment, "partition": 1}
        for v in (b"bad1", b"drop", b"good", b"fail")
    ])  # fmt: skip
    file = configured({**NO_BAD, "produce.request.interceptors": "policies.Repair"})
    done = command("redact", file, "--topic", source, "--to", target)
    assert done.code == 1
    assert "2 accepted, 0 refused, 1 dropped, 1 failed" in done.out
    assert read_topic(kafka.bootstrap_servers, target) == [
        (1, b"k", value, [("own", b"1")]) for value in (b"good1", b"good")
    ]
    stamps = [
        record.timestamp()[1] for record in read_topic(kafka.bootstrap_servers, target, full=True)
    ]
    assert stamps == [moment, moment]
    done = command("redact", file, "--topic", source, "--to", f"path:{tmp_path / 'r'}")
    [first, _] = spark.read.parquet(str(tmp_path / "r")).orderBy("offset").collect()
    assert (bytes(first.value), first.offset, first.headers[0].key) == (b"good1", 0, "own")
    assert int(first.timestamp.timestamp() * 1000) == moment
