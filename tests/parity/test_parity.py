"""One corpus, all doors: the gateway and Spark give the same verdict, reason and message.

Each record is sent through the gateway as a separate batch, and directly to the broker, from where
it is read by Spark's Kafka connector, by the data source, and as a raw batch by both readers of
batches. The policies return their arguments (as a digest), so a difference in the arguments is a
difference in the reasons.
"""

import itertools
import json
import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.policy import Header, Record
from tests.kafka.records.encoding import CODECS
from tests.parity.same import COLUMNS, HEADERS, KEYS, POLICIES, PROPERTIES, VALUES, Sinks, check


@pytest.fixture(
    params=[{}, pytest.param(COLUMNS, marks=pytest.mark.slow)], ids=["records", "columns"]
)
def doors(request, spark, kafka, gateway, topic, admin):
    running = gateway({**PROPERTIES, **request.param}, POLICIES)
    return Sinks(spark, kafka, running, topic, admin)


def test_the_corpus(doors):
    # Times that retention keeps; headers and keys go round with the values.
    now = int(time.time() * 1000)
    records, codecs = [], []
    extras = itertools.cycle(itertools.product(HEADERS, KEYS))
    for codec in CODECS:
        for value in VALUES:
            headers, key = next(extras)
            records.append(Record(now + len(records), key, value, headers))
            codecs.append(codec)
        next(extras)
    outcomes = {outcome for outcome, _, _ in check(doors, records, codecs)}
    assert outcomes == {"accepted", "refused", "failed"}


texts = st.text(max_size=8).filter(lambda text: "\x00" not in text)
content = (
    st.none() | st.binary(max_size=12) | st.sampled_from([v for v in VALUES if v and len(v) < 99])
)
generated = st.builds(
    Record,
    st.integers(0, 1000),
    st.sampled_from(KEYS) | st.binary(max_size=4),
    content
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(texts | st.just("refuse"), inner)
        ),
    ).map(lambda document: json.dumps(document).encode()),
    st.lists(st.builds(Header, texts, st.none() | st.binary(max_size=4)), max_size=3).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(st.lists(generated, min_size=20, max_size=60), st.randoms(use_true_random=False))
def test_random_records(doors, records, random):
    now = int(time.time() * 1000)
    records = [record._replace(timestamp=now + record.timestamp) for record in records]
    check(doors, records, [random.choice(list(CODECS)) for _ in records])


def test_the_corpus_has_edge_cases():
    assert math.isnan(json.loads("NaN"))
    assert None in VALUES
    assert max(len(v or b"") for v in VALUES) > 100_000
