"""Interceptors whose action on a record is a byte of its value."""

from collections.abc import Iterator, Sequence
from typing import Any

from penstock.policy import (
    Header,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
)

LEAVE, CHANGE, UNDO, REKEY, DROP, FAIL, WRONG = range(7)
"""The action of an interceptor on a record; its value has a byte for each interceptor."""
CHANGED = b"+"


class Own:
    """A result of a class of the policy's own."""

    def __init__(self, key: bytes | None, value: bytes) -> None:
        self.key, self.value = key, value


def process(key: bytes | None, value: bytes, action: int, name: str) -> Any:
    if action == CHANGE:
        return Own(key, value + CHANGED)
    if action == UNDO:
        return ProduceRequestInterceptorResult(key, value.removesuffix(CHANGED))
    if action == REKEY:
        return ProduceRequestInterceptorResult(name.encode(), value)
    if action == DROP:
        raise ProduceRequestInterceptorSkipRecordException
    if action == FAIL:
        raise KeyError(name)
    if action == WRONG:
        return ProduceRequestInterceptorResult(key, "text")
    return ProduceRequestInterceptorResult(key, value)


def interceptor(place: int, kind: str) -> type[ProduceRequestInterceptor]:
    """Make a class: `record`, `batch` or `both`."""

    class Interceptor(ProduceRequestInterceptor):
        def interceptor_topic_pattern(self) -> str:
            return "^orders$"

        if kind != "batch":

            def process_record(
                self,
                key: bytes | None,
                value: Any,
                topic: str,
                partition: int,
                headers: Sequence[Header],
            ) -> Any:
                assert (topic, partition, headers) == ("orders", 3, (Header("h", b"1"),))
                return process(key, value, value[place], f"I{place}")

        if kind != "record":

            def process_batch(
                self, topic: str, partition: int, batch: Any
            ) -> Iterator[tuple[int, Any]]:
                assert (topic, partition) == ("orders", 3)
                assert set(batch.headers) == {(Header("h", b"1"),)}
                assert len(batch)
                for index, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True)):
                    if value[place] == LEAVE:
                        continue
                    try:
                        yield index, process(key, value, value[place], f"I{place}")
                    except (ProduceRequestInterceptorSkipRecordException, KeyError) as error:
                        yield index, error

    Interceptor.__name__ = f"I{place}{kind}"
    return Interceptor
