"""Confluent's functions."""

import pytest

from penstock.policies.schema_policy.rules.functions import FUNCTIONS

CASES = {
    "isEmail": (
        ["a@b.example", "a.b+c@d.example"],
        ["", "a", "@b", "a@", "a b@c", "A <a@b>", "a@b@c d", "a@" + "b" * 3000],
    ),
    "isHostname": (
        ["example.com", "a", "a-b.example."],
        ["", "-a", "a..b", "a_b", "1.2.3.4", "a" * 64, ".".join(["a" * 60] * 5)],
    ),
    "isIpv4": (["127.0.0.1"], ["::1", "1.2.3", "1.2.3.4.5", "1" * 5000]),
    "isIpv6": (["::1", "fe80::1"], ["127.0.0.1", ":::", ""]),
    "isUri": (
        ["https://example.com/a", "urn:isbn:1"],
        ["/a", "example.com", "http://[", "http://a b", ""],
    ),
    "isUriRef": (["/a/b", "a?b#c", "https://example.com"], ["http://[", "a b", "x" * 3000]),
    "isUuid": (["8c1f1a3e-2b3c-4d5e-8f90-0123456789ab"], ["", "8c1f1a3e2b3c4d5e8f900123456789ab"]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_texts_for_which_functions_are_true_and_false(name):
    yes, no = CASES[name]
    assert [text for text in yes if not FUNCTIONS[name](text)] == []
    assert [text for text in no if FUNCTIONS[name](text)] == []
