"""Splits a stream of bytes into Kafka's frames: 4 bytes of length, then as many bytes.

A frame is either held until it is complete, or passed on in pieces as they are received. That is
decided by its first bytes. No memory is allocated before the bytes of a frame are received,
for any length in its header.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from penstock.kafka.wire.errors import WireError
from penstock.kafka.wire.primitives import skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH_BYTES = 4
REQUEST_HEAD_BYTES = 12
"""Length, API key (2), API version (2), correlation id (4)."""
RESPONSE_HEAD_BYTES = 8
"""Length, correlation id (4)."""
THROTTLE_TIME_BYTES = 4


def body_of_response(frame: bytes, *, flexible: bool) -> int:
    """Return where the body of a response begins.

    Args:
        frame: The response, length included.
        flexible: Whether its header has tagged fields (KIP-482).

    Raises:
        IndexError: The frame ends before.
    """
    return skip_tags(frame, RESPONSE_HEAD_BYTES) if flexible else RESPONSE_HEAD_BYTES


class FrameReader:
    """Splits chunks of any size into frames. The bytes that it passes on include the length.

    Attributes:
        max_bytes: The largest length accepted.
    """

    def __init__(
        self,
        *,
        head_bytes: int,
        max_bytes: int,
        on_head: Callable[[bytes], bool],
        on_frame: Callable[[bytes], None],
        on_piece: Callable[[bytes | memoryview, bool], None],
    ) -> None:
        """Make a reader.

        Args:
            head_bytes: How many bytes, length included, `on_head` needs.
            max_bytes: The largest length accepted.
            on_head: A frame begins; returns whether to hold it (True) or to stream it.
            on_frame: A held frame is complete.
            on_piece: A part of a streamed frame, the first with its head, and whether it is
                the last.
        """
        self._on_head = on_head
        self._on_frame = on_frame
        self._on_piece = on_piece
        self._head_bytes = head_bytes
        self.max_bytes = max_bytes
        self._is_suspended = False
        self._is_interrupted = False
        self._head = b""
        self._remaining_bytes = 0
        self._is_held = False
        self._partial_frame: BytesIO | None = None
        self._held_bytes = 0
        self._is_stopped = False

    @property
    def between_frames(self) -> bool:
        """Whether the last frame is complete and the next has not begun."""
        return not self._remaining_bytes and not self._head

    @property
    def held_bytes(self) -> int:
        """The bytes held of an incomplete frame, and of bytes put aside."""
        return self._held_bytes + len(self._head)

    @property
    def missing_bytes(self) -> int:
        """The bytes of the current frame that have not been received yet; 0 between frames."""
        return 0 if self._is_stopped else self._remaining_bytes

    @property
    def missing_held_bytes(self) -> int:
        """The bytes of the current frame that have not been received yet, if it is held."""
        return self._remaining_bytes if self._is_held else 0

    @property
    def left_bytes(self) -> int | None:
        """The bytes of the current frame, or of its head, that are missing; None between frames."""
        if self._is_stopped or self.between_frames:
            return None
        return self._remaining_bytes or max(0, self._head_bytes - len(self._head))

    @property
    def missing_streamed_bytes(self) -> int:
        """The bytes of the current frame that have not been received yet, if it is streamed."""
        return 0 if self._is_held or self._is_suspended else self.missing_bytes

    def stop(self) -> None:
        """Ignore an incomplete frame, and everything from here on."""
        self._is_stopped = True
        self._is_held = False
        self._partial_frame = None
        self._held_bytes = 0
        self._on_head = self._on_frame = self._on_piece = _ignore  # they may refer to this

    def stop_after_frame(self) -> None:
        """Stop at the end of the current frame, or else of the next."""
        on_frame, on_piece = self._on_frame, self._on_piece

        def on_last_frame(frame: bytes) -> None:
            on_frame(frame)
            self.stop()

        def on_last_piece(piece: bytes | memoryview, last: bool) -> None:
            on_piece(piece, last)
            if last:
                self.stop()

        self._on_frame, self._on_piece = on_last_frame, on_last_piece

    def suspend(self) -> None:
        """Begin no further frame for now, and put further bytes aside. Call it between frames."""
        self._is_suspended = True

    def interrupt(self) -> None:
        """Put aside all further bytes, also within a frame."""
        self._is_suspended = self._is_interrupted = True

    def resume(self) -> None:
        """Go on, with the next chunk, which may be empty."""
        self._is_suspended = self._is_interrupted = False

    @property
    def is_suspended(self) -> bool:
        """Whether further bytes are put aside."""
        return self._is_suspended

    @property
    def is_streaming(self) -> bool:
        """Whether all that was received was passed on, up to the first bytes of a frame."""
        held_remainder = self._is_held and self._remaining_bytes
        return not (
            held_remainder
            or self._is_suspended
            or self._is_stopped
            or len(self._head) >= self._head_bytes
        )

    def leave(self) -> tuple[bytes, int]:
        """Return the first bytes of a frame, and how many of a streamed frame are missing.

        Both are forgotten; another reader continues. To be called if `is_streaming`.
        """
        head, missing_bytes, self._head, self._remaining_bytes = (
            self._head,
            self._remaining_bytes,
            b"",
            0,
        )
        return head, missing_bytes

    def enter(self, missing_bytes: int) -> None:
        """Continue within a streamed frame with so many bytes missing; 0 between frames."""
        self._remaining_bytes, self._is_held = missing_bytes, False

    def put_back(self, head: bytes) -> None:
        """Take the first bytes of a frame back, which `leave` has returned."""
        self._head = head

    def feed(self, data: bytes) -> None:
        """Take the next chunk.

        Raises:
            WireError: A length is impossible or above the limit.
        """
        if self._head:
            if self._is_interrupted:
                self._head += data
                return
            data, self._head = self._head + data, b""
        position, end = 0, len(data)
        while position < end and not self._is_stopped:
            if not self._remaining_bytes:
                if end - position < self._head_bytes or self._is_suspended:
                    self._head = data[position:]
                    return
                head = data[position : position + self._head_bytes]
                length = int.from_bytes(head[:LENGTH_BYTES], "big", signed=True)
                if not self._head_bytes - LENGTH_BYTES <= length <= self.max_bytes:
                    raise WireError(f"a frame of {length} bytes; the most is {self.max_bytes}")
                self._remaining_bytes = LENGTH_BYTES + length
                self._is_held = self._on_head(head)
            elif self._is_interrupted:
                self._head = data[position:]
                return
            take = min(self._remaining_bytes, end - position)
            part = data if take == end else memoryview(data)[position : position + take]
            position += take
            self._remaining_bytes -= take
            if not self._is_held:
                self._on_piece(part, not self._remaining_bytes)
            elif self._remaining_bytes:
                self._hold(part)
            else:
                self._on_frame(
                    bytes(part)
                    if self._partial_frame is None
                    else self._whole(part, self._partial_frame)
                )

    def _hold(self, part: bytes | memoryview) -> None:
        """Keep a part of a frame: the memory grows as its bytes are received."""
        if self._partial_frame is None:
            self._partial_frame = BytesIO()
        self._held_bytes += self._partial_frame.write(part)

    def _whole(self, last: bytes | memoryview, buffer: BytesIO) -> bytes:
        """Return a frame whose last part has arrived. Its bytes are not copied again."""
        self._partial_frame, self._held_bytes = None, 0
        buffer.write(last)
        return buffer.getvalue()


def _ignore(*_: object) -> Any:
    return None
