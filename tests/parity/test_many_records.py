"""Records by the thousand: the gateway, frames of Spark and raw batches judge each alike.

`make parity` generates 100,000 records for each kind of policy; `--parity-records` and
`--parity-seed` say how many, and which. Each record is a separate batch at the gateway, so that
each has a verdict there.
"""

import json
import random

import pytest

import penstock.policies
from penstock.configuration.installed_policies import own_policies
from penstock.configuration.topic_keys import MODES
from penstock.policy import RecordValidationPolicy
from tests.parity.doors import (
    INTERCEPTOR,
    KINDS,
    LONG,
    OBSERVED_INTERCEPTOR,
    PARTITIONS,
    QUARANTINE,
    Generator,
    same_at_all_doors,
)
from tests.parity.json_texts import LINE, SCHEMA
from tests.parity.same import POLICIES

pytestmark = [pytest.mark.parity, pytest.mark.timeout(3600)]


@pytest.fixture(params=KINDS, ids=str)
def running(request, gateway, tmp_path):
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "order.json").write_text(json.dumps(SCHEMA))
    (schemas / "line.json").write_text(json.dumps(LINE))
    (schemas / "key.json").write_text('{"minLength": 1}')
    more = {"json.schema.folder": str(schemas), "policy.workers": "1", **LONG}
    return gateway({**KINDS[request.param], **more}, POLICIES + INTERCEPTOR)


def test_each_policy_without_code_and_each_mode_has_a_kind():
    kinds = [" ".join(kind.values()) for kind in KINDS.values()]
    elsewhere = {"SchemaPolicy"}  # tests/parity/test_schemas.py
    policies = {
        name
        for name in own_policies()
        if issubclass(getattr(penstock.policies, name), RecordValidationPolicy)
    }
    assert len(policies) > 6
    for name in policies - elsewhere:
        assert any(f"penstock.policies.{name}" in kind for kind in kinds), name
    for mode in MODES:
        assert any(mode in kind.split() for kind in kinds), mode


def test_zero_differences(request, running, spark, kafka, topic, monkeypatch, pytestconfig):
    seed = pytestconfig.getoption("parity_seed") or random.randrange(2**32)
    kind = request.node.callspec.params["running"]
    same_at_all_doors(
        running,
        spark,
        kafka.bootstrap_servers,
        (topic("parity-through", PARTITIONS), topic("parity-stored", PARTITIONS)),
        Generator(seed),
        pytestconfig.getoption("parity_records"),
        monkeypatch,
        note=f", seed {seed}",
        dead_letters=QUARANTINE.items() <= KINDS[kind].items(),
        contents=kind != OBSERVED_INTERCEPTOR,
    )
