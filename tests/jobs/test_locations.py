import pytest

from penstock.configuration import ConfigurationError
from penstock.jobs.locations import RecordLocation, check_apart


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("orders", "orders", "topic"),
        ("path:/lake/orders", "/lake/orders", "folder"),
        ("table:lake.db.orders", "lake.db.orders", "table"),
        ("table:delta.`/lake/orders`", "delta.`/lake/orders`", "table"),
    ],
)
def test_a_location_is_a_topic_a_folder_or_a_table(text, name, kind):
    found = RecordLocation.parse(text)
    assert (found.name, str(found)) == (name, text)
    assert (found.is_topic, found.is_folder, found.is_table) == tuple(
        kind == expected for expected in ("topic", "folder", "table")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a topic"),
        ("a/b", "for a folder, write path:a/b"),
        ("path:", "followed by a folder"),
        ("table:", "followed by a table"),
        ("table: ", "followed by a table"),
        ("table:/lake/orders", "table:delta.`/lake/orders`"),
    ],
)
def test_other_locations_are_an_error(text, message):
    with pytest.raises(ValueError, match=r"must be|is not|is a path") as error:
        RecordLocation.parse(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("orders", "orders"),
        ("path:d", "path:d"),
        ("path:d", "path:./d/"),
        ("path:d", "path:d/good"),
        ("path:d/../e/f", "path:e"),
        ("path:s3a://b/d", "path:s3a://b/d/x/"),
        ("path:s3a://b/x/../d", "path:s3a://b/d"),
    ],
)
def test_locations_that_are_not_apart(first, second):
    for pair in ((first, second), (second, first)):
        with pytest.raises(ConfigurationError, match=r"--a.* and --b.* must differ"):
            check_apart(dict(zip(("--a", "--b"), map(RecordLocation.parse, pair), strict=True)))


def test_locations_that_are_apart():
    names = ["orders", "path:orders", "path:orders.dead", "table:orders", "path:hdfs://a/orders"]
    check_apart({name: RecordLocation.parse(name) for name in names})


def test_locations_beside_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = tmp_path.resolve()
    for name, expected in {
        "dead": "dead.parked",
        "path:dead/": "path:dead.parked",
        "path:.": f"path:{here}.parked",
        "path:a/..": f"path:{here}.parked",
        "path:s3a://b/d/": "path:s3a://b/d.parked",
    }.items():
        assert str(RecordLocation.parse(name).beside(".parked")) == expected
