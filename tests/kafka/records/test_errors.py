from penstock.kafka.records.errors import UnreadableRecords


def test_an_error_carries_code_and_message():
    error = UnreadableRecords(87, "why")
    assert (error.code, error.message, str(error)) == (87, "why", "why")
