"""KIP-940, a batch at a time with NumPy: limit sensor readings to the bounds of their topic.

    record.validation.policy.class.name=readings.Readings
    topics.temperatures.record.validation.policy=-40..85

A reading has 16 bytes, big-endian: the sensor's number (int64) and the measured value (double).
A batch becomes one array. NaN is outside any bounds.
"""

import struct

import numpy as np

from penstock.policy import InvalidRecordException, RecordIntrospectionHints, RecordValidationPolicy

_READING = struct.Struct(">qd")
_READINGS = np.dtype([("sensor", ">i8"), ("measured", ">f8")])


class Readings(RecordValidationPolicy):
    """Refuses values that are not a reading, or are out of bounds."""

    def get_hints(self):
        return RecordIntrospectionHints(access_headers=False, access_key_bytes=0)

    def validate(self, topic, record):
        if record.value is None or len(record.value) != _READING.size:
            raise InvalidRecordException("a reading has 16 bytes")
        low, high = _bounds(topic)
        sensor, measured = _READING.unpack(record.value)
        if not low <= measured <= high:
            raise InvalidRecordException(_outside(topic, sensor))

    def validate_batch(self, topic, batch):
        low, high = _bounds(topic)
        positions = []
        for position, value in enumerate(batch.values):
            if value is None or len(value) != _READING.size:
                yield position, "a reading has 16 bytes"
            else:
                positions.append(position)
        whole = batch.values
        if len(positions) < len(whole):
            whole = [whole[position] for position in positions]
        readings = np.frombuffer(b"".join(whole), _READINGS)
        within = (low <= readings["measured"]) & (readings["measured"] <= high)
        for index in np.flatnonzero(~within):
            yield positions[index], _outside(topic, readings["sensor"][index])


def _bounds(topic):
    low, _, high = topic.validation_policy.partition("..")
    return float(low), float(high)


def _outside(topic, sensor):
    return f"sensor {sensor} is outside of {topic.validation_policy}"
