"""The conditions of `DropRecords` as its keys write them."""

from random import Random

import pytest

from penstock.policies import DropRecords
from penstock.policy import Header, ProduceRequestInterceptorSkipRecordException

VALUE = b'{"customer": {"kind": "test"}, "n": 5}'


def drops(**configs):
    policy = DropRecords()
    policy.configure(configs)
    try:
        policy.process_record(None, VALUE, "orders", 0, [Header("source", b"load")])
    except ProduceRequestInterceptorSkipRecordException:
        return True
    return False


@pytest.mark.parametrize("text", ["source = load", "test, source =load", "source= load", "source"])
def test_blanks_around_a_condition_on_a_header_do_not_count(text):
    assert drops(headers=text)
    assert not drops(headers=text.replace("source", "origin"))


@pytest.mark.parametrize(
    "text", ["customer.kind = test", 'customer.kind = "test"', "n = 5", "a=1, n =5"]
)
def test_blanks_around_a_condition_on_a_field_do_not_count(text):
    assert drops(fields=text)


@pytest.mark.parametrize(
    "text",
    ["source==load", "source!=load", "source='load'", 'source="load"', "source;test", '"source"'],
)
def test_a_condition_on_a_header_that_nobody_meets_is_an_error(text):
    with pytest.raises(ValueError, match="headers must be "):
        drops(headers=text)


@pytest.mark.parametrize(
    "text",
    ["customer.kind==test", "customer.kind!=prod", "n>=5", "customer.kind='test'", "n;a=5", "#n=5"],
)
def test_a_condition_on_a_field_that_nobody_meets_is_an_error(text):
    with pytest.raises(ValueError, match=r"must be |is not a path"):
        drops(fields=text)


def test_generated_blanks_change_nothing():
    random = Random(52)
    for _ in range(1000):
        value = random.choice(["load", "test", "x"])
        blanks = [" " * random.randint(0, 2) for _ in range(4)]
        text = "{}source{}={}{}{}".format(*blanks[:3], value, blanks[3])
        assert drops(headers=f"other=1,{text}") is (value == "load")
