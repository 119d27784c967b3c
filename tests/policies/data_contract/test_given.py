"""A contract is pickled with the content of its file, and judges without the file."""

import json
import pickle

import pytest

from penstock.policies import DataContract
from penstock.policies.data_contract.given import GivenContract
from penstock.policy.testing import judge

pytestmark = pytest.mark.unit
CONTRACT = """
apiVersion: v3.1.0
kind: DataContract
id: orders
version: 1.0.0
status: active
schema:
  - name: orders
    properties:
      - {name: id, logicalType: integer, required: true}
"""


def test_it_judges_as_the_file(tmp_path):
    file = tmp_path / "orders.yaml"
    file.write_text(CONTRACT)
    values = [json.dumps(value).encode() for value in ({"id": 1}, {"id": "x"}, {})] + [b"{"]
    expected = judge(DataContract, values, configs={"contract": str(file)})
    data = pickle.dumps(GivenContract.of(file))
    file.unlink()
    found = judge(pickle.loads(data), values)
    assert [verdict.message for verdict in found] == [verdict.message for verdict in expected]
    assert [verdict.outcome for verdict in found] == ["accepted", *["refused"] * 3]


def test_errors(tmp_path):
    with pytest.raises(ValueError, match=r"no.yaml cannot be read: No such file"):
        GivenContract.of(tmp_path / "no.yaml")
    (tmp_path / "x.yaml").write_text("kind: other")
    with pytest.raises(ValueError, match=r"x\.yaml"):
        GivenContract.of(tmp_path / "x.yaml")
