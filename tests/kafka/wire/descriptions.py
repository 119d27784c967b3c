"""Responses about transactions."""

import struct


def framed(body: bytes) -> bytes:
    data = (7).to_bytes(4, "big") + body
    return len(data).to_bytes(4, "big") + data


def description(
    *,
    code: int = 0,
    state: str = "Empty",
    start: int = -1,
    topics: bytes = b"\x01",
    producer_id: int = 17,
    epoch: int = 3,
) -> bytes:
    """Return the response of a coordinator that knows the transactional id "t"."""
    described = struct.pack(">h", code) + b"\x02t" + bytes([len(state) + 1]) + state.encode()
    described += struct.pack(">iqqh", 60_000, start, producer_id, epoch) + topics + b"\x00"
    return framed(b"\x00" + bytes(4) + b"\x02" + described + b"\x00")
