"""The request for a producer id without transactions (KIP-98), to which any broker responds."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.static.primitive import i32Timedelta

from penstock.kafka.client.protocol.write_errors import write_error
from penstock.kafka.wire.producer_ids import ProducerIdAndEpoch

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.response import InitProducerIdResponse

PRODUCER_ID_REQUEST: Final = InitProducerIdRequest(
    transactional_id=None, transaction_timeout=i32Timedelta.parse(dt.timedelta(minutes=1))
)


def producer_of(response: InitProducerIdResponse) -> ProducerIdAndEpoch:
    """Return the producer of a response.

    Raises:
        ClientError: There is none now, or it is denied.
    """
    if response.error_code:
        raise write_error(int(response.error_code), "a producer id")
    return ProducerIdAndEpoch(int(response.producer_id), int(response.producer_epoch))
