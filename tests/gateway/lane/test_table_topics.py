"""Batches are accepted natively if Python accepts them inline, and no others.

Bounded in `make test`; `make fuzz` for more.
"""

import random
import struct
import uuid
from dataclasses import replace
from types import SimpleNamespace

import crc32c
import pytest

from penstock import _native
from penstock.configuration import load_configuration
from penstock.configuration.topic_keys import ENFORCE, MARK, OBSERVE, QUARANTINE
from penstock.engine.inline import InlineJudge
from penstock.engine.plans.declared import classes_here
from penstock.engine.plans.plan import Plan
from penstock.engine.plans.topic_plan import TopicPlan
from penstock.engine.verdict import ACCEPTED, refused
from penstock.gateway.lane import table_topics
from penstock.gateway.lane.table import compiled
from penstock.gateway.lane.table_topics import TableTopics
from penstock.gateway.observing.metrics.cells import BOUNDS
from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.observing.metrics.exposition import render
from penstock.gateway.produce.forwarded_at_once import is_forwarded_at_once, known_topics
from penstock.gateway.produce.intercepted.batches import InterceptedBatches
from penstock.gateway.produce.observed_batches import TimesBeside
from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.arrivals import Arrival
from penstock.gateway.produce.producer_state.producer.numbers import Range
from penstock.gateway.produce.producer_state.records.encoding import ProducerKey
from penstock.gateway.produce.request import ReceivedRequest
from penstock.kafka.records.header import BatchProducer
from penstock.kafka.wire.errors import WireError
from penstock.policy import Header, Record
from tests.gateway.lane.checked import CLASS, SCHEMAS, checked_records, inline_judge, some_records
from tests.gateway.lane.compressed import WAYS, damaged
from tests.gateway.sessions.talk import Talk
from tests.gateways import write_configuration
from tests.kafka.records.encoding import encode_batch
from tests.metrics import Metrics
from tests.raw import produce_request, request_frame

native = _native
pytestmark = pytest.mark.skipif(not hasattr(native, "Lane"), reason="native threads need Linux")
NOTHING = (0, False, None, 0, [], False)
ID = uuid.UUID(int=7)
TOPICS = ("first", "second", "free")
INPUTS_OF_ONE = 8
COMPRESSED = (1, 2, 3, 4)
"""Codecs: gzip, snappy, lz4, zstd."""


class Checked(Talk):
    """A session whose topics are judged by a schema each."""

    plans: dict = {}

    def for_topic(self, topic, own=None):
        return self.plans.get(topic)


def talk_with(inline, plans):
    talk = Checked(judged=frozenset(plans))
    talk.plans = plans
    talk.policies = talk.policies._replace(inline=inline)
    talk.lane = TableTopics(native, talk, compiled(talk))
    talk.session.topics.put("first", ID)
    return talk


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """A gateway with policies."""
    folder = tmp_path_factory.mktemp("schemas")
    inline = inline_judge(folder)
    properties = {"record.validation.policy.class.name": CLASS}
    for topic, text in zip(TOPICS, SCHEMAS, strict=False):
        properties[f"topics.{topic}.record.validation.policy"] = text
    plan = Plan(configuration(folder, properties))
    return talk_with(inline, {topic: plan.for_topic(topic) for topic in TOPICS[:2]})


@pytest.fixture
def talk(loaded):
    """A gateway whose table knows all topics: other tests may have removed some."""
    good = encode_batch([Record(0, b'"k"', b'{"id": 1, "name": "n"}')])
    learn(loaded, request_frame(produce_request([(topic, [(0, good)]) for topic in TOPICS]), 1))
    learn(loaded, request_frame(produce_request([(ID, [(0, good)])], version=13), 1))
    return loaded


def configuration(folder, properties, policies=""):
    file = write_configuration(folder, "127.0.0.1:1", 9, properties, policies)
    return load_configuration(
        file, read_declared=lambda *_: (), describe_classes=classes_here
    ).policies


def python_forwards(talk, frame):
    try:
        request = talk.session.produce_requests.read(frame)
    except WireError:
        return False
    found = known_topics(request, talk.session)
    return found is not None and is_forwarded_at_once(found, request, talk.session)


def learn(talk, frame):
    assert python_forwards(talk, frame)


def relay(talk):
    return native.Relay(talk.lane.table, NOTHING, 3_000_000, BOUNDS)


def native_forwards(talk, frame):
    judging = relay(talk)
    found = judging.client_data(frame)
    while slice_ := judging.judge_slice(frame, 0.0):
        goes_on, stopped = slice_
        assert found == (0, False)
        if not goes_on:
            found = (0, True) if stopped else judging.client_data(frame)
    assert found in {(len(frame), False), (0, True)}
    return found[1] is False


def frame_of(chance):
    """Return a request as clients send it, or nearly so; and whether its batches are compressed."""
    version = chance.choice((3, 5, 8, 9, 10, 12, 13))
    topics = [(ID if version == 13 else chance.choice(TOPICS), partitions(chance))]
    if version < 13 and chance.random() < 0.3:
        topics.append((chance.choice(TOPICS), partitions(chance)))
    request = produce_request(topics, version=version, acks=chance.choice((-1, 0, 1)))
    return bytearray(request_frame(request, 1))


def partitions(chance):
    count = 1 if chance.random() < 0.7 else 2
    return [(number, checked_records(chance)) for number in range(count)]


def resealed(frame, at):
    """Correct the checksum of a batch, if there is a batch at the position."""
    (length,) = struct.unpack_from(">i", frame, at + 8)
    end = at + 12 + length
    if at + 61 <= end <= len(frame):
        struct.pack_into(">I", frame, at + 17, crc32c.crc32c(bytes(frame[at + 21 : end])))


def changed(frame, chance):
    """Change bytes of a request after its header: of its structure, of headers, of records."""
    at = frame.find(b"\x02", 40)  # magic 2, often
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(12, len(frame))
        kind = chance.randrange(5)
        if kind == 0:
            frame[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind == 1:
            frame[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del frame[place]
        elif kind == 3:
            frame.insert(place, chance.choice((0, 0x80, 0xFF)))
        else:
            field = chance.choice((8, 16, 22, 23, 43, 53, 57)) + at - 16
            if 12 <= field < len(frame) - 4:
                number = chance.choice((-1, 0, 1, 2, 3, 5, 2**31 - 1, -(2**31)))
                struct.pack_into(">i", frame, field, number)
    if chance.random() < 0.8 and 16 < at < len(frame) - 61:
        resealed(frame, at - 16)
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    return frame


@pytest.mark.parametrize("mode", [ENFORCE, MARK, OBSERVE, QUARANTINE])
def test_random_inputs_pass_natively_only_if_python_forwards_them(
    loaded, mode, pytestconfig, chance
):
    plans = {topic: replace(plan, mode=mode) for topic, plan in loaded.plans.items()}
    talk = talk_with(loaded.policies.inline, plans)
    talk.keeps_decisions = True
    talk.session.topics.put("second", uuid.UUID(int=8))  # policies that observe need it
    for frame in all_frames():
        learn(talk, frame)
    count = pytestconfig.getoption("fuzz_inputs")
    both = only_python = 0
    for number in range(count // INPUTS_OF_ONE):
        frame = frame_of(chance)
        others = (changed(frame.copy(), chance) for _ in range(INPUTS_OF_ONE - 1))
        for data in map(bytes, (frame, *others)):
            in_python, passes = python_forwards(talk, data), native_forwards(talk, data)
            assert in_python or not passes, (number, data.hex())
            both += passes
            only_python += in_python and not passes
    assert both > count // 20
    # Compressed batches, requests that are not plain, and all that is only observed.
    assert only_python < both or mode == OBSERVE


@pytest.mark.parametrize("codec", [0, *COMPRESSED])
@pytest.mark.parametrize("version", range(3, 14))
def test_requests_that_python_forwards_pass_natively(talk, version, codec):
    chance = random.Random(version)
    seen = set()
    for _ in range(100):
        batch = encode_batch(some_records(chance), codec=codec)
        topic = ID if version == 13 else chance.choice(TOPICS)
        frame = request_frame(produce_request([(topic, [(0, batch)])], version=version), 1)
        in_python = python_forwards(talk, frame)
        assert native_forwards(talk, frame) == in_python
        seen.add(in_python)
    assert seen == {True, False}


@pytest.mark.parametrize("version", range(3, 9))
def test_versions_before_zstd_are_left_to_python(talk, version):
    for codec in ("zstd", "lz4"):
        batch = encode_batch([Record(0, None, b'{"id": 1}')], codec=codec)
        request = produce_request([("first", [(0, batch)])], version=version)
        frame = request_frame(request, 1)
        assert python_forwards(talk, frame) == (codec == "lz4" or version >= 7)
        assert native_forwards(talk, frame) == python_forwards(talk, frame)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_batch_that_is_larger_than_the_limit_when_decompressed_is_left_to_python(talk, codec):
    value = b'{"id": 1, "name": "' + b"n" * 40_000 + b'"}'
    batch = encode_batch([Record(0, b'"k"', value)], codec=codec)
    assert len(batch) < 3_000
    frame = request_frame(produce_request([("first", [(0, batch)])]), 1)
    assert not python_forwards(talk, frame)
    assert not native_forwards(talk, frame)


@pytest.fixture(scope="module")
def large(tmp_path_factory, loaded):
    """A gateway that judges large batches inline, too: only native threads do so in a gateway."""
    inline = inline_judge(tmp_path_factory.mktemp("schemas"), inline_max_bytes=3_000_000)
    talk = talk_with(inline, loaded.plans)
    for frame in all_frames():
        learn(talk, frame)
    return talk


def all_in_forms(records, chance):
    """Return a large batch in each codec and form of clients, and with damaged records."""
    plain = encode_batch(records)
    for codec, compressed in WAYS:
        data = with_records(plain, codec, compressed(plain[61:]))
        yield codec, data, True
        for _ in range(6):
            yield codec, with_records(plain, codec, damaged(compressed(plain[61:]), chance)), False
    for _ in range(12):
        yield 0, with_records(plain, 0, damaged(plain[61:], chance)), False
    yield 0, plain, True


def with_records(batch, codec, records):
    """Return a batch with the records in another form, and correct length and checksum."""
    data = bytearray(batch[:61] + records)
    data[22] = codec
    struct.pack_into(">i", data, 8, len(data) - 12)
    resealed(data, 0)
    return bytes(data)


def test_large_batches_pass_natively_only_if_python_forwards_them(large, pytestconfig, chance):
    both = only_python = neither = 0
    by_codec = set()
    for _ in range(max(3, pytestconfig.getoption("fuzz_inputs") // 20_000)):
        padding = chance.choice((b"x" * 20_000, chance.randbytes(10_000).hex().encode()))
        value = b'{"id": %d, "padding": "%s"}'
        many = range(chance.randrange(15, 100))
        records = [Record(number, b'"k1"', value % (number, padding)) for number in many]
        for codec, batch, is_good in all_in_forms(records, chance):
            frame = request_frame(produce_request([("first", [(0, batch)])]), 1)
            in_python, passes = python_forwards(large, frame), native_forwards(large, frame)
            assert in_python or not passes, (codec, len(records))
            assert in_python or not is_good
            both += passes
            neither += not in_python
            only_python += in_python and not passes
            if is_good and passes:
                by_codec.add(codec)
    assert by_codec == {0, *COMPRESSED}
    assert both > 30
    assert neither > 30
    assert only_python < both / 4, (only_python, both)


@pytest.mark.parametrize("codec", [0, *COMPRESSED])
def test_one_bad_record_of_a_large_batch_is_found_wherever_it_is(large, codec):
    good = b'{"id": 1, "padding": "' + b"x" * 10_000 + b'"}'
    for bad in (None, 0, 1, 30, 58, 59):
        records = [Record(0, b'"k"', b"{}" if number == bad else good) for number in range(60)]
        batch = encode_batch(records, codec=codec)
        frame = request_frame(produce_request([("first", [(0, batch)])]), 1)
        assert native_forwards(large, frame) == python_forwards(large, frame) == (bad is None)


def test_native_and_python_counts_of_accepted_batches_agree(talk):
    batch = encode_batch([Record(0, b'"k"', b'{"id": 1}'), Record(1, None, b'{"id": 2}')])
    frame = request_frame(produce_request([("first", [(0, batch), (1, batch)])]), 1)
    judging = relay(talk)
    assert judging.client_data(frame) == (len(frame), False)
    _, _, ((topic, policies, records, buckets, total_s),), *_ = judging.collect()
    assert (topic, policies, records, sum(buckets)) == ("first", CLASS, 4, 2)
    assert total_s > 0
    assert judging.collect()[2] == []


NAMED = {
    "Required": {"fields": "id,lines[*].sku"},
    "KeyRequired": {"empty.keys": "accept"},
    "MaxBytes": {"value.max.bytes": "40", "record.max.bytes": "50", "headers.max.bytes": "6"},
    "HeaderRequired": {"headers": "h,é"},
    "Rules": {"rules.positive": "value.id > 0 && value.id < 10"},
    "JsonSchema": {"schema": "first.json"},
}
RECORDS = [
    Record(0, b"k", b'{"id": 1, "lines": [{"sku": 1}]}', (Header("h", b"1"), Header("é", None))),
    Record(0, b"", b'{"id": 2, "lines": []}', (Header("é", b"1"), Header("h", b""))),
    Record(0, b"k", b'{"id": 3, "lines": [{}]}', (Header("h", b"1"),)),
    Record(0, b"k" * 30, b'{"id": 30, "lines": []}'),
    Record(0, None, b'{"id": 4, "lines": []}', (Header("h", b"123456"), Header("é", b"1"))),
    Record(0, b"k", None, (Header("h", None), Header("é", b"1"))),
    Record(0, b"k", b"[]", (Header("h", None), Header("é", b"1"))),
]


@pytest.mark.parametrize("chosen", [*((policy,) for policy in NAMED), ("KeyRequired", "MaxBytes")])
def test_named_policies_accept_the_same_batches_natively_and_inline(tmp_path, chosen):
    inline_judge(tmp_path)  # writes the schemas
    names = [f"p{number}" for number, _ in enumerate(chosen)]
    properties = {"policies": ",".join(names), "topics.t.penstock.policies": ",".join(names)}
    for name, short in zip(names, chosen, strict=True):
        properties[f"policies.{name}.type"] = f"penstock.policies.{short}"
        properties |= {f"policies.{name}.{key}": value for key, value in NAMED[short].items()}
    of = configuration(tmp_path, properties)
    inline, plan = InlineJudge(of, clock=lambda: 0.0, cpu_clock=lambda: 0.0), Plan(of)
    judge = inline.natively(plan.for_topic("t"), native.Judge)
    seen = set()
    for record in RECORDS:
        for records in ([record], [RECORDS[0], record]):
            batch = encode_batch(records)
            accepted = inline.accepts(plan.for_topic("t"), 9, batch)
            assert judge.accepts(batch) == (len(records) if accepted else None)
            seen.add(accepted)
    assert seen == {True, False}


@pytest.mark.parametrize(
    "properties",
    [
        {"policies.p.type": "penstock.policies.HeaderRequired", "policies.p.headers": "h",
         "policies.p.headers.h.pattern": "^a$"},
        {"policies.p.type": "penstock.policies.Rules", "policies.p.rules.r": "key != 'x'"},
        {"policies.p.type": "penstock.policies.JsonSchema", "policies.p.schema": "back.json"},
        {"policies.p.type": "penstock.policies.JsonSchema", "policies.p.schema": "first.json",
         "policies.p.json.schema.formats": "true"},
        {"policies.p.type": "keys_of_a_user.Mine"},
    ],
)  # fmt: skip
def test_unbounded_schemas_and_policies_of_users_are_not_judged_natively(tmp_path, properties):
    inline_judge(tmp_path)
    (tmp_path / "back.json").write_text('{"pattern": "^(?!a)"}')
    users = "from penstock.policies import KeyRequired\nclass Mine(KeyRequired): pass\n"
    # Not `policies`: the tests' process, which imports it, may have a module of that name.
    (tmp_path / "keys_of_a_user.py").write_text(users)
    both = {"policies": "p,q", "topics.t.penstock.policies": "q,p",
            "policies.q.type": "penstock.policies.KeyRequired", **properties}  # fmt: skip
    of = configuration(tmp_path, both)
    assert InlineJudge(of).natively(Plan(of).for_topic("t"), native.Judge) is None


def with_modes(folder, properties):
    """Return a gateway with a topic `t` of which policies require a key, and JSON with an id."""
    inline_judge(folder)  # writes the schemas
    both = {"policies": "p,q", "topics.t.penstock.policies": "p,q",
            "policies.p.type": "penstock.policies.KeyRequired",
            "policies.q.type": "penstock.policies.JsonSchema",
            "policies.q.schema": "first.json", **properties}  # fmt: skip
    of = configuration(folder, both)
    plan = Plan(of).for_topic("t")
    talk = talk_with(InlineJudge(of, clock=lambda: 0.0, cpu_clock=lambda: 0.0), {"t": plan})
    talk.session.topics.put("t", ID)
    talk.beside = InlineJudge(of, clock=lambda: 0.0, cpu_clock=lambda: 0.0)
    talk.keeps_decisions = True
    talk.producers = Producers(now=lambda: 5.0, is_shared=True)
    talk.producers.topics.on_topic = talk.lane.forget_numbered
    return talk


def learn_at_once(talk, topic="t"):
    """Have the lane know a topic, whatever Python does with its batches."""
    frame = request_frame(produce_request([(topic, [(0, b"")])]), 1)
    request = talk.session.produce_requests.read(frame)
    talk.lane.passed(request.topics, [(talk.plans[topic], request.topics[0])], talk.session.topics)


NUMBERED = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


@pytest.mark.parametrize("version", [9, 13])
def test_of_topics_in_quarantine_only_batches_without_producer_ids_pass_natively(tmp_path, version):
    talk = with_modes(tmp_path, {"penstock.mode": QUARANTINE})
    plain, numbered = (of_one(RECORDS[0], version, **of) for of in ({}, NUMBERED))
    for begin in (
        lambda: None,
        lambda: talk.producers.restore(*record_of("t"), 5.0),  # another gateway has dropped some
        lambda: talk.producers.interceptors_changed(lambda _: True),
    ):
        begin()
        if not native_forwards(talk, plain):  # also after a change that may concern any topic
            learn(talk, plain)
        talk.lane.forget_numbered("t")
        assert native_forwards(talk, plain)
        assert not python_forwards(talk, numbered)
        assert not native_forwards(talk, numbered)


@pytest.mark.parametrize("change", ["decisions", "ratio"])
def test_topics_in_quarantine_whose_batches_count_or_wait_are_not_judged_natively(tmp_path, change):
    ratio = {"penstock.quarantine.max.ratio": "0.5"} if change == "ratio" else {}
    talk = with_modes(tmp_path, {"penstock.mode": QUARANTINE, **ratio})
    talk.keeps_decisions = change != "decisions"
    learn_at_once(talk)
    assert not native_forwards(talk, of_one(RECORDS[0]))


def of_one(record, version=9, acks=1, **of_producer):
    topic = ID if version == 13 else "t"
    batch = encode_batch([RECORDS[0], record], **of_producer)
    return request_frame(produce_request([(topic, [(0, batch)])], version=version, acks=acks), 1)


class Workers:
    """Workers with rings, whose instances stay or do not."""

    def __init__(self):
        self.rings = SimpleNamespace(serves=lambda name: True, pool=native.RingPool())
        self.is_closing = False

    def needs_client(self, plan):
        return False

    def may_be_known(self, plan):
        return not self.is_closing


def test_a_topic_is_not_known_while_its_instance_is_to_be_closed():
    plan, topic = TopicPlan(topic="t", records_policy="b.P"), SimpleNamespace(topic_id=None)
    topic.key = topic.name = "t"
    talk, pool = talk_with(None, {"t": plan}), Workers()
    talk.policies = talk.policies._replace(pool=pool)
    for pool.is_closing in (True, False):
        talk.lane.passed([topic], [(plan, topic)], talk.session.topics)
        assert talk.lane.table.names() == ([] if pool.is_closing else ["t"])


class Beside:
    """Judges observed batches at once, and counts them as the workers beside do."""

    open_pool = ring_pool = None

    def __init__(self, inline, counts):
        self.inline, self.counts = inline, counts

    def submit(self, batch, data):
        if self.inline.accepts(batch.plan, batch.version, data):
            self.counts.observed(batch.plan, data, ACCEPTED)
            TimesBeside(self.counts).judged(batch.plan.policy_names, None, 0.1, 0.1)
        else:
            self.counts.observed(batch.plan, data, refused(87, "no", batch.plan.policy_names))


class Serving:
    """Workers, whose rings serve topics or not."""

    def __init__(self):
        self.rings = self
        self.pool = native.RingPool()
        self.is_serving = True

    def serves(self, _):
        return self.is_serving

    def needs_client(self, _):
        return False

    def may_be_known(self, _):
        return True


class ObservedInRings:
    """The workers of policies that only observe."""

    def __init__(self):
        self.open_pool = None
        self.ring_pool = native.RingPool([], 10, 10_000, 10)
        self.look_count = 0

    def look(self):
        self.look_count += 1


BY_CLASSES = {
    "policies": "p,q",
    "topics.t.penstock.policies": "p,q",
    **{f"policies.{name}.type": "classes_of_a_user.Mine" for name in "pq"},
    "policies.q.mode": OBSERVE,
}


@pytest.fixture
def by_classes(tmp_path):
    """A gateway with a topic `t` whose records one class refuses, and another observes."""
    users = "from penstock.policies import KeyRequired\nclass Mine(KeyRequired): pass\n"
    (tmp_path / "classes_of_a_user.py").write_text(users)
    of = configuration(tmp_path, BY_CLASSES)
    talk = talk_with(InlineJudge(of), {"t": Plan(of).for_topic("t")})
    talk.session.topics.put("t", ID)
    waited, observed = Serving(), ObservedInRings()
    talk.policies = talk.policies._replace(pool=waited, observed=observed)
    return talk, waited, observed


def rings_of_parts(talk):
    """Return the workers of the waited-for and of the observed part of a topic."""
    judging = talk.lane._judging(talk.plans["t"], "t")
    return None if judging is None else [part and part[3] for part in judging[1:]]


def test_rings_have_what_is_waited_for_while_the_workers_that_observe_are_not_there(by_classes):
    talk, waited, observed = by_classes
    assert rings_of_parts(talk) == [waited.pool, observed.ring_pool]
    waited.is_serving = False
    assert rings_of_parts(talk) is None
    observed.ring_pool = None
    waited.is_serving = True
    assert rings_of_parts(talk) is None


def test_rings_have_what_is_waited_for_while_what_is_observed_is_slow(by_classes):
    talk, waited, observed = by_classes
    observed.open_pool = Serving()
    learn_at_once(talk)
    for is_serving in (False, True):
        talk.lane.look_again()
        assert talk.lane.table.names() == ["t"]
        observed.open_pool.is_serving = is_serving
        talk.lane.look_again()
        assert talk.lane.table.names() == []
        learn_at_once(talk)
        waited_pool, observed_pool = rings_of_parts(talk)
        assert waited_pool is waited.pool
        assert (observed_pool is observed.ring_pool) is is_serving
    waited.is_serving = False
    talk.lane.look_again()
    assert talk.lane.table.names() == []
    assert observed.look_count == 5


async def figures(counts):
    """Return the records of batches, and how many batches were judged."""
    metrics = Metrics((await render(counts.families())).decode())
    return metrics.of("penstock_records_total"), metrics.of("penstock_judging_seconds_count")


MODES = {
    "observe": {"penstock.mode": OBSERVE},
    "mark": {"penstock.mode": MARK},
    "enforce and observe": {"policies.q.mode": OBSERVE},
    "observe and enforce": {"policies.p.mode": OBSERVE},
    "mark and observe": {"policies.p.mode": MARK, "policies.q.mode": OBSERVE},
    "enforce and mark": {"policies.q.mode": MARK},
    "quarantine": {"penstock.mode": QUARANTINE},
    "quarantine and mark": {"policies.p.mode": QUARANTINE, "policies.q.mode": MARK},
    "quarantine and observe": {"policies.p.mode": QUARANTINE, "policies.q.mode": OBSERVE},
}
OF_MODES = [
    *RECORDS,
    Record(0, None, b"[]"),
    *(
        Record(0, b"k", b'{"id": 1}', (Header("h", b"1"), Header(name, value)))
        for name in ("__mark.errors.policy", "__mark.errors.code", "__mark.errors.message",
                     "__mark.errors", "mark")
        for value in (b"1", None)
    ),
]  # fmt: skip


@pytest.mark.parametrize("modes", MODES)
async def test_batches_that_policies_of_other_modes_accept_pass_natively_and_count_as_in_python(
    tmp_path, modes
):
    talk = with_modes(tmp_path, MODES[modes])
    plan, inline = talk.plans["t"], talk.policies.inline
    seen = set()
    for version in (3, 9, 13):
        for acks in (0, 1, -1):
            learn(talk, of_one(RECORDS[0], version, acks))
            for record in OF_MODES:
                frame = of_one(record, version, acks)
                counts = GatewayCounts(records_max=1000)
                inline._on_accepted = counts.accepted_inline
                talk.counts = counts
                talk.policies = talk.policies._replace(observed=Beside(talk.beside, counts))
                in_python = python_forwards(talk, frame)
                inline._on_accepted = None
                judging, passes = relay(talk), native_forwards(talk, frame)
                batch = encode_batch([RECORDS[0], record])
                parts = filter(None, (plan.waited_for, plan.observed))
                all_accept = all(inline.accepts(part, version, batch) for part in parts)
                assert passes == all_accept
                assert in_python or not passes
                seen.add(passes)
                if passes:
                    judging.client_data(frame)
                    natively = GatewayCounts(records_max=1000)
                    natively.forwarded(*judging.collect())
                    assert await figures(natively) == await figures(counts)
    assert seen == {True, False}


def test_of_a_topic_that_is_observed_as_well_large_batches_are_accepted_in_python(tmp_path):
    talk = with_modes(tmp_path, {"policies.q.mode": OBSERVE})
    value = b'{"id": 1, "name": "' + b"n" * 40_000 + b'"}'
    for record, expected in ((Record(0, b"k", value), True), (Record(0, None, value), False)):
        talk.policies.inline._large_from.clear()
        data = memoryview(encode_batch([record]))
        assert talk.lane.accepts(talk.plans["t"], 9, data) is expected
    assert not talk.lane.accepts(talk.plans["t"].observed, 9, memoryview(b""))


def test_a_dead_letter_topic_is_not_judged_by_the_policies_in_quarantine(tmp_path):
    talk = with_modes(tmp_path, {"penstock.mode": QUARANTINE})
    talk.plans["t"] = replace(talk.plans["t"], holds_dead_letters=True)
    frame = of_one(Record(0, None, b"bad"), **NUMBERED)
    learn(talk, frame)
    assert native_forwards(talk, frame)


@pytest.mark.parametrize("mode", [ENFORCE, OBSERVE])
def test_a_topic_is_not_judged_natively_if_that_is_so_for_some_of_its_policies(tmp_path, mode):
    (tmp_path / "back.json").write_text('{"pattern": "^(?!a)"}')
    talk = with_modes(tmp_path, {"policies.q.schema": "back.json", "policies.q.mode": mode})
    learn_at_once(talk)
    assert not native_forwards(talk, of_one(RECORDS[0]))
    assert not talk.lane.accepts(talk.plans["t"], 9, memoryview(b""))


def test_only_the_topic_of_a_batch_that_has_to_be_retried_is_not_judged_natively(talk):
    batch = encode_batch([Record(0, b'"k1"', b'{"id": 1, "name": "n"}')])
    frames = {topic: request_frame(produce_request([(topic, [(0, batch)])]), 1) for topic in TOPICS}
    key, producer = ProducerKey("first", 0, 7, ""), BatchProducer(7, 0, 5, 1, False)
    talk.missing_batches.answered(key, producer, 1, is_retriable=True)
    talk.lane.forget_numbered("first")
    assert [native_forwards(talk, frames[topic]) for topic in TOPICS] == [False, True, True]
    for frame in frames.values():
        learn(talk, frame)
    assert [native_forwards(talk, frames[topic]) for topic in TOPICS] == [False, True, True]
    talk.missing_batches.answered(key, producer, 1, is_retriable=False)
    learn(talk, frames["first"])
    assert native_forwards(talk, frames["first"])


def shared_state(talk, monkeypatch):
    """Return the shared state of producers of a gateway, connected to the lane."""
    producers = Producers(now=lambda: 5.0, is_shared=True)
    producers.topics.on_topic = talk.lane.forget_numbered
    producers.topics.on_change = talk.lane.forget_affected
    monkeypatch.setattr(talk, "producers", producers, raising=False)
    return producers


def record_of(topic):
    """Return a record of another gateway, which has dropped a record of a topic."""
    kept = []
    other = Producers(
        now=lambda: 5.0, is_shared=True, keep=lambda key, record, done: kept.append((key, record))
    )
    key, arrival = ProducerKey(topic, 0, 7), Arrival(topic, 0, 7)
    other.decide(key, arrival, 0, Range(0, 2), [1], b"", connection=1, callback=lambda _: None)
    return kept[-1]


def all_frames():
    """Return a request for each topic by its name, and for the first topic by its id."""
    batch = encode_batch([Record(0, b'"k1"', b'{"id": 1, "name": "n"}')])
    return [
        *(request_frame(produce_request([(topic, [(0, batch)])]), 1) for topic in TOPICS),
        request_frame(produce_request([(ID, [(0, batch)])], version=13), 1),
    ]


@pytest.mark.parametrize("topic", ["first", "free"])
def test_only_a_topic_with_producer_state_is_left_to_python(talk, monkeypatch, topic):
    frames = all_frames()
    for frame in frames:
        learn(talk, frame)
    producers = shared_state(talk, monkeypatch)
    producers.restore(*record_of(topic), 5.0)
    expected = [TOPICS[0] != topic, True, TOPICS[2] != topic, TOPICS[0] != topic]
    assert [native_forwards(talk, frame) for frame in frames] == expected
    # Python does not say again that it is known, whoever sends to it.
    assert [python_forwards(talk, frame) for frame in frames] == expected
    assert [native_forwards(talk, frame) for frame in frames] == expected


def test_after_a_change_of_interceptors_only_affected_topics_are_forgotten(talk, monkeypatch):
    frames = all_frames()
    for frame in frames:
        learn(talk, frame)
    shared_state(talk, monkeypatch).interceptors_changed(lambda topic: topic == "first")
    assert [native_forwards(talk, frame) for frame in frames] == [False, True, True, False]
    assert [python_forwards(talk, frame) for frame in frames] == [False, True, True, False]
    assert [native_forwards(talk, frame) for frame in frames] == [False, True, True, False]


def test_of_many_topics_all_are_forgotten_after_a_change(talk, monkeypatch):
    monkeypatch.setattr(table_topics, "_COMPARED_MAX", len(TOPICS) - 1)
    shared_state(talk, monkeypatch).interceptors_changed(lambda topic: topic == "first")
    assert not any(native_forwards(talk, frame) for frame in all_frames())
    assert talk.lane.table.names() == []


def test_a_topic_without_policies_is_forgotten_by_name_if_requests_have_its_id(talk, monkeypatch):
    free = uuid.UUID(int=8)
    talk.session.topics.put("free", free)
    batch = encode_batch([Record(0, None, b"x")])
    frame = request_frame(produce_request([(free, [(0, batch)])], version=13), 1)
    learn(talk, frame)
    assert native_forwards(talk, frame)
    shared_state(talk, monkeypatch).restore(*record_of("free"), 5.0)
    assert not native_forwards(talk, frame)


def test_a_topic_whose_records_may_be_dropped_is_forgotten_after_a_reload(talk):
    for frame in all_frames():
        learn(talk, frame)
    batch = encode_batch([Record(0, None, b"x")], producer_id=7, producer_epoch=0, base_sequence=0)
    frame = request_frame(produce_request([("first", [(0, batch)])]), 1)
    request = ReceivedRequest(talk.session.produce_requests.read(frame), talk.session)
    assert list(request.read_partitions()) == []
    intercepted = InterceptedBatches(request)
    intercepted.expect(request.partitions[0], has_policies=True)
    assert not native_forwards(talk, all_frames()[0])
    assert native_forwards(talk, all_frames()[1])
    intercepted.cancel()


def test_schemas_of_topics_are_read_once(talk, monkeypatch):
    made = []
    inline, plan = talk.policies.inline, talk.plans["first"]
    judge = inline.natively(plan, lambda *given: made.append(given))
    assert made == []
    assert inline.natively(plan, native.Judge) is judge
