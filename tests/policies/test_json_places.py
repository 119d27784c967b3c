"""Fields replaced in the text of a value: every other byte stays."""

import json
import random
from collections import Counter

import pytest

from penstock.policies.json_paths import parse
from penstock.policies.json_places import JsonPlaces, read, replace, write
from tests.policies.json_paths import NEW, PATHS, Writer


def replaced(text, *paths):
    return replace(
        text, JsonPlaces.of_paths([parse(path) for path in paths]).find(text), lambda *_: NEW
    )


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"card":{"number":"4111"},"card":{"last4":"1"}}', "card.number",
         '{"card":{"number":"***"},"card":{"last4":"1"}}'),
        (r'{"card":{"n\u0075mber":"4111"},"c\u0061rd":{"number":1}}', "card.number",
         r'{"card":{"n\u0075mber":"***"},"c\u0061rd":{"number":"***"}}'),
        ('{"a":1,"b":12345678901234567.89, "c":1.10,"d":1e99999}', "a",
         '{"a":"***","b":12345678901234567.89, "c":1.10,"d":1e99999}'),
        ('{"cards":{"x":{"number":1},"y":[{"number":2}]}}', "cards.*.number",
         '{"cards":{"x":{"number":"***"},"y":[{"number":2}]}}'),
        ('{"cards":[{"number":1},2,{"n":3}]}', "cards.*.number",
         '{"cards":[{"number":"***"},2,{"n":3}]}'),
        ('{"cards":{"x":{"number":1}}}', "cards[*].number",
         '{"cards":{"x":{"number":"***"}}}'),
        (' [ 1 , [ ] , { "a" : 2 } ]\r\n', "[*]", ' [ "***" , "***" , "***" ]\r\n'),
        ('{"a":{"b":1},"b":2}', "*", '{"a":"***","b":"***"}'),
        (r'{"\ud800":1,"x":"\ud800"}', r"['\ud800']", r'{"\ud800":"***","x":"\ud800"}'),
        ('{"":{"":1}}', "['']['']", '{"":{"":"***"}}'),
        ('{"a":' + "9" * 5000 + "}", "b", '{"a":' + "9" * 5000 + "}"),
        ('{"b":' + "9" * 5000 + "}", "b", '{"b":"***"}'),
        ("{ }", "a", "{ }"),
        ("[]", "*", "[]"),
    ],
)  # fmt: skip
def test_each_occurrence_is_replaced_in_place(text, path, expected):
    assert replaced(text, path) == expected


def test_a_place_within_another_is_found_and_goes_with_it():
    places = JsonPlaces.of_paths([parse("a.b"), parse("a"), parse("*.b")]).find(
        '{"a":{"b":1},"c":{"b":2}}'
    )

    assert [place.paths for place in places] == [(1,), (0, 2), (2,)]
    assert replaced('{"a":{"b":1},"c":{"b":2}}', "a.b", "a") == '{"a":"***","c":{"b":2}}'


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{"a":1 "b":2}', '{"a" 1}',
     "{a:1}", '{1:"a"}', '{"a":[1,]}', '{"a":[1', '{"a":[1 2]}', '{"a":[,1]}', '{"a":{"b":NaN}}',
     '{"a":-Infinity}', '{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":+1}', '{"a":1e}', '{"a":"\n"}',
     r'{"a":"\x"}', r'{"a":"\u12g4"}', "{\"a\":'b'}", '{"a":1}}', '{"a":1} {}', '{"b":tru}',
     '\ufeff{"a":1}', '{"a":1,"b\t":2}', '{"\u00a0a":1,\u00a0"b":2}', '{"a":\u0661}'],
)  # fmt: skip
def test_text_that_is_not_json_is_an_error(text):
    for path in ("a", "a.b", "*", "a[*]", "b", "nowhere"):
        with pytest.raises(ValueError):
            JsonPlaces.of_paths([parse(path)]).find(text)


def test_many_properties_and_levels_take_no_more_than_reading():
    wide = "{" + ",".join(f'"n{number}":{number}' for number in range(100_000)) + ',"a":1}'
    assert replaced(wide, "a") == wide[:-2] + '"***"}'
    with pytest.raises(RecursionError):
        JsonPlaces.of_paths([parse("a")]).find('{"a":' + "[" * 100_000)


def test_random_documents_are_stored_as_a_writer_writes_them():
    random_ = random.Random(52)
    changed = 0
    for _ in range(3000):
        paths = random_.sample(PATHS, random_.randrange(1, 4))
        writer = Writer(random_, [parse(path) for path in paths])
        space = writer.space()
        sent, stored = (space + text for text in writer.document())
        assert replaced(sent, *paths) == stored, (sent, paths)
        json.loads(stored)
        changed += sent != stored
    assert changed > 500


def test_damaged_documents_are_errors_where_pythons_parser_has_one():
    chance = random.Random(53)
    outcomes = Counter()
    for _ in range(5000):
        paths = [parse(path) for path in chance.sample(PATHS, chance.randrange(1, 4))]
        text, _ = Writer(chance, paths).document()
        for _ in range(chance.randrange(3)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(DAMAGES) + text[at + chance.randrange(2) :]
        expected = is_json(text)
        try:
            JsonPlaces.of_paths(paths).find(text)
            found = True
        except ValueError:
            found = False
        assert found == expected, (text, paths)
        outcomes[found] += 1
    assert min(outcomes.values()) > 1000


DAMAGES = [
    *'"{}[],:\\0-.eEtn\n \t',
    "",
    "\x00",
    "\u2028",
    "\ufeff",
    "NaN",
    "-Infinity",
    '"a":',
    "1",
]


def is_json(text):
    def no_constant(name):
        raise ValueError(name)

    try:
        json.loads(text, parse_constant=no_constant)
    except ValueError:
        return False
    return True


def test_numbers_of_any_size_are_read():
    assert read("[1, 1.5, 1e999, -1e999]") == [1, 1.5, float("inf"), float("-inf")]
    assert read("9" * 5000) == int("9" * 4000) * 10**1000 + int("9" * 1000)
    for text in ("NaN", "1 2", ""):
        with pytest.raises(ValueError):
            read(text)


def test_values_are_written_as_utf_8_allows():
    assert write({"\u00e4": ["\ud800", 1]}) == r'{"\u00e4":["\ud800",1]}'
    assert write("\u00e4") == '"\u00e4"'
    with pytest.raises(ValueError):
        write(float("inf"))
