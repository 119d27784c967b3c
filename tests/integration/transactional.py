"""Policies for transactions."""

POLICIES = """
from penstock.policy import *

class DropsDrop(ProduceRequestInterceptor):
    def interceptor_topic_pattern(self): return "."
    def process_record(self, key, value, topic, partition, headers):
        if value.startswith(b"drop"): raise ProduceRequestInterceptorSkipRecordException
        return ProduceRequestInterceptorResult(key, value)
"""
