import pytest

from penstock.stored.locations import RecordLocation


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
