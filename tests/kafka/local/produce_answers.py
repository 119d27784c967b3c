"""Answers of a broker to `penstock.kafka.local.produce`."""

from kio.schema.produce.v9.response import BatchIndexAndErrorMessage, PartitionProduceResponse
from kio.static.primitive import i32, i64


def answer(
    code: int, *texts: str | None, message: str | None = None, offset: int = 7
) -> PartitionProduceResponse:
    errors = tuple(
        BatchIndexAndErrorMessage(batch_index=i32(0), batch_index_error_message=text)
        for text in texts
    )
    return PartitionProduceResponse(
        index=i32(0), error_code=code, base_offset=i64(offset), log_start_offset=i64(0),
        record_errors=errors, error_message=message,
    )  # fmt: skip
