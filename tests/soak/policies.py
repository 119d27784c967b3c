"""The policies of the soak's gateways: each letter of `records` has its own outcome.

The file is copied into a gateway's folder, and rewritten by reloads, which change `VERSION` and
`SLOW_S`, but not the outcome of a record.
"""

import re
import time

from penstock.policy import (
    BrokerRecordValidator,
    InvalidRecordException,
    PolicyViolationException,
    ProduceRequestInterceptor,
    ProduceRequestInterceptorResult,
    ProduceRequestInterceptorSkipRecordException,
    RecordsPolicy,
)

VERSION = 0
SLOW_S = 0.1


class Bad(BrokerRecordValidator):
    def validate_record(self, topic_partition, key, value, headers):
        if value.startswith(b"b:"):
            return InvalidRecordException(f"bad is not good, in version {VERSION}")
        return None


class NotToday(RecordsPolicy):
    def validate(self, topic, partition, records):
        if any(record.value.startswith(b"n:") for record in records):
            raise PolicyViolationException(f"not today, in version {VERSION}")


class Changes(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self):
        return re.compile("soak-(intercepted|transactions|observed|passing-.*)")

    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"d:"):
            raise ProduceRequestInterceptorSkipRecordException
        if value.startswith(b"s:"):
            time.sleep(SLOW_S)
        if value.startswith(b"c:"):
            value = b"C" + value[1:]
        return ProduceRequestInterceptorResult(key, value)
