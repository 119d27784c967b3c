"""The broker's answers about the rights of a client."""

from penstock.gateway.observing.metrics.counts import GatewayCounts
from penstock.gateway.produce.lookups.write_rights import WriteRights
from tests.gateway.admin.talk import broker_frame
from tests.gateway.sessions.talk import Talk
from tests.raw import parse_response, produced


def looked_up(talk: Talk, operations: int, code: int = 0, *names: str) -> None:
    """Respond to the gateway's own Metadata request."""
    frame = talk.broker.take()
    assert int.from_bytes(frame[4:8], "big") == 3 << 16 | 12, "Metadata, version 12"
    found = [
        {"name": name, "error_code": code, "topic_authorized_operations": operations}
        for name in names or ("judged",)
    ]
    number = int.from_bytes(frame[8:12], "big")
    talk.session.upstream_data(broker_frame(3, 12, number, topics=found))


def answer_of(talk: Talk, name: str = "judged") -> tuple[int, str | None, list[str | None]]:
    found = produced(parse_response(talk.client.take(), 0, 9))[name, 0]
    errors = [error.batch_index_error_message for error in found.record_errors]
    return found.error_code, found.error_message, errors


def checked(talk: Talk) -> Talk:
    """A session whose client's rights are not known."""
    talk.write_rights, talk.counts = WriteRights(), GatewayCounts(records_max=10_000)
    return talk
