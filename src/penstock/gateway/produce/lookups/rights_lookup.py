"""Whether clients may write to topics, where the gateway responds, or acts, for the broker.

Brokers check it for all batches that they receive. A batch that is refused or set aside, or of
which nothing is left, never gets there. So the gateway first sends a request over the client's
connection. Without the right, the response is that of a broker: it has no policy's message.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.kafka.wire.errors import RETRIABLE, UNKNOWN_TOPIC_OR_PARTITION
from penstock.kafka.wire.own_requests import CLIENT_ID
from penstock.kafka.wire.requests import topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.gateway.produce.request import ReceivedRequest

    Codes = Mapping[str, int]
    """Kafka's error code by topic; 0 for the right to write."""


def look_up(
    request: ReceivedRequest, names: Collection[str], on_known: Callable[[Codes], None]
) -> None:
    """Call `on_known` with the rights of a request's client, as soon as they are known.

    Args:
        request: The request; if it is cancelled, `on_known` is not called.
        on_known: Called with the error code of each of them.
    """
    rights, connection = request.gateway.write_rights, request.connection
    client = connection.number, connection.authentication.principal
    cached_codes = {name: rights.code(client, name) for name in names}
    codes = {name: code for name, code in cached_codes.items() if code is not None}
    unknown = [name for name, code in cached_codes.items() if code is None]
    if not unknown:
        on_known(codes)
        return

    def on_body(body: bytes) -> None:
        make = partial(topics.framed_metadata, body=body, client_id=CLIENT_ID)
        connection.send_request(make, on_response)

    def on_response(frame: bytes) -> None:
        request.gateway.turns.begin(topics.write_codes_in(frame), on_found, request.fail)

    def on_found(new_codes: Codes) -> None:
        if request.is_cancelled:
            return
        for name in unknown:
            codes[name] = code = new_codes.get(name, UNKNOWN_TOPIC_OR_PARTITION)
            if code not in RETRIABLE:
                rights.put(client, name, code)
        on_known(codes)

    request.do(topics.metadata_body(unknown, operations=True), on_body)
