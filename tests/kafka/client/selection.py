"""The selection of batches of a response, which comes in parts, as a whole."""

from penstock.kafka.client.reading.batches import select


def selection(*args):
    """Return what `select` yields as one selection."""
    *others, last = select(*args)
    assert last.is_last and not any(part.is_last for part in others)
    return last._replace(batches=[batch for part in (*others, last) for batch in part.batches])
