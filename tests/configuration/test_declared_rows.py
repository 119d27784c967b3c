"""The keys that a class declares, whatever its attribute holds."""

import itertools
import re

import pytest

from penstock.configuration.declared_rows import (
    check_name_and_type,
    check_values,
    read_rows,
    texts_of,
)
from penstock.policy import ConfigKey, TopicConfig


def read(declarations, row_type=ConfigKey, most=3):
    return read_rows(declarations, row_type, "config_keys", most=most)


def test_rows_are_read_from_any_sequence():
    row = ("limit", "int", "5", "A limit.")
    assert read([row, ConfigKey(*row)]) == read(iter([row, row])) == (ConfigKey(*row),) * 2
    assert read([]) == ()


def test_valid_values_become_a_tuple():
    row = ConfigKey("limit", "int", documentation="A limit.")._replace(valid_values=["1", "2"])
    assert read([row])[0].valid_values == ("1", "2")


@pytest.mark.parametrize(
    "declarations",
    [
        None,
        5,
        [5],
        [("a",) * 20],
        [ConfigKey("a", "int", documentation="A.")._replace(valid_values="12")],
        [ConfigKey("a", "int", documentation="A.")._replace(valid_values=None)],
    ],
)
def test_another_form_is_an_error_that_names_the_attribute(declarations):
    with pytest.raises(ValueError, match=r"^config_keys must be a sequence of ConfigKey$"):
        read(declarations)


def test_there_may_be_a_number_of_rows_and_no_more():
    row = ConfigKey("a", "int", documentation="A.")
    assert len(read([row] * 3)) == 3
    for rows in ([row] * 4, itertools.repeat(row)):
        with pytest.raises(ValueError, match=r"^config_keys has more than 3 keys$"):
            read(rows)


@pytest.mark.parametrize("row_type", [ConfigKey, TopicConfig])
def test_all_fields_but_the_last_are_text(row_type):
    row = row_type("a", "int", documentation="A.")
    flag = row_type._fields[-1]
    for wrong in ({"name": 5}, {"documentation": None}, {"valid_values": (1,)}, {"default": 1}):
        with pytest.raises(ValueError, match=f"^config_keys: all but {flag} must be text$"):
            read([row._replace(**wrong)], row_type)
    with pytest.raises(ValueError, match=f"^config_keys: {flag} must be True or False$"):
        read([row._replace(**{flag: 1})], row_type)


def test_the_texts_of_a_row_have_its_values_and_its_default():
    row = ConfigKey("a", "int", documentation="A.")._replace(valid_values=("1",), default="2")
    assert texts_of(row) == ("a", "int", "A.", "1", "2")
    assert texts_of(row._replace(default=None)) == ("a", "int", "A.", "1", "")


def test_names_and_types_are_checked():
    row = ConfigKey("a.b", "int", documentation="A.")
    check_name_and_type(row, "a.b", re.compile(r"[a-z.]+"), {"int"})
    with pytest.raises(ValueError, match=r"^a\.b is not a valid name for a key$"):
        check_name_and_type(row, "a.b", re.compile(r"[a-z]+"), {"int"})
    with pytest.raises(ValueError, match=r"^a\.b has the type int, not one of text, list$"):
        check_name_and_type(row, "a.b", re.compile(r"[a-z.]+"), ["text", "list"])


def _parse(value):
    if not value.isdigit():
        raise ValueError("a number")


@pytest.mark.parametrize(
    ("valid_values", "default", "fault"),
    [
        ((), None, None),
        (("1", "2"), "1", None),
        (("1", "x"), "1", "x"),
        ((), "y", "y"),
        (("1",), "", ""),
    ],
)
def test_the_default_and_the_valid_values_have_the_type(valid_values, default, fault):
    row = ConfigKey("a", "int", documentation="A.")._replace(
        valid_values=valid_values, default=default
    )
    if fault is None:
        check_values(row, "a", _parse)
        return
    with pytest.raises(ValueError, match=f"^a must be a number; it may be {fault!r}$"):
        check_values(row, "a", _parse)
