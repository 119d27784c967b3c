"""A cluster that follows a script: each fetch gets the next response of a list."""

import uuid
from collections import deque
from types import SimpleNamespace

from kio.schema.fetch.v12.request import FetchRequest as FetchRequest12
from kio.schema.fetch.v13.request import FetchRequest as FetchRequest13
from kio.serial import entity_reader

from penstock.kafka.client.connections.metadata import PartitionLeader, TopicLeaders
from penstock.kafka.client.connections.retries import Retries
from penstock.kafka.client.errors import response_error
from penstock.kafka.client.protocol.raw_requests import RawResponse
from penstock.kafka.wire.names import NO_ID
from tests.kafka.client.settings import SETTINGS

ID = uuid.UUID(int=77)
EARLIEST, LATEST, EARLIEST_LOCAL = -2, -1, -4


class Pending:
    def __init__(self, response):
        self._response = response
        self.abandoned = False

    def wait(self):
        if isinstance(self._response, Exception):
            raise self._response
        return self._response

    def abandon(self):
        self.abandoned = True


class ScriptedCluster:
    """A partition `t` 0. Time passes in pauses only.

    Attributes:
        script: For each fetch a response, an error, or a function that returns one.
        fetches: The fetches: node, offset, leader epoch, max bytes, rack, version.
        leaders: For each request of metadata a leader; the last one stays.
        topic_ids: Likewise.
        offsets: What ListOffsets returns, by timestamp.
        epoch_ends: What OffsetForLeaderEpoch returns, by epoch; its default is no end.
    """

    def __init__(self, *script, settings=SETTINGS, topic_id=NO_ID):
        self.settings = settings
        self.script = deque(script)
        self.fetches = []
        self.pending = []
        self.leaders = deque([PartitionLeader(1, 5)])
        self.topic_ids = deque([topic_id])
        self.offsets = {EARLIEST: 0, LATEST: 1000, EARLIEST_LOCAL: 0}
        self.epoch_ends = {}
        self.requested_epochs = []
        self.refreshed = 0
        self.served = range(18)
        self.now = 0.0
        self.pauses = []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds

    def clock(self):
        return self.now

    def retries(self):
        return Retries(self.settings, clock=self.clock, sleep=self.sleep)

    def topic(self, name, *, refresh=False):
        if refresh:
            self.refresh(name)
        return TopicLeaders(name, 0, self.topic_ids[0], {0: self.leaders[0]})

    def refresh(self, topic):
        self.refreshed += 1
        for waiting in (self.leaders, self.topic_ids):
            if len(waiting) > 1:
                waiting.popleft()

    def leader(self, topic, partition):
        leader = self.leaders[0]
        if leader.node < 0:
            raise response_error(5, topic)
        return leader

    def versions(self, node, api_key, *, channel=""):
        return self.served if api_key == 1 else range(12)

    def begin(self, node, request, *, channel):
        kind = {12: FetchRequest12, 13: FetchRequest13}[request.version]
        fetch, _ = entity_reader(kind)(request.body, 0)
        partition = fetch.topics[0].partitions[0]
        self.fetches.append(
            SimpleNamespace(
                node=node,
                offset=int(partition.fetch_offset),
                epoch=int(partition.current_leader_epoch),
                max_bytes=int(fetch.max_bytes),
                rack=fetch.rack_id,
                version=request.version,
                reads_committed=bool(fetch.isolation_level),
                at=self.now,
            )
        )
        response = self.script.popleft()
        if callable(response):
            response = response()
        assert isinstance(response, RawResponse | Exception)
        self.pending.append(Pending(response))
        return self.pending[-1]

    def send(self, node, request, response):
        topic = request.topics[0]
        partition = topic.partitions[0]
        if type(request).__name__ == "ListOffsetsRequest":
            answer = self.offsets[int(partition.timestamp)]
            code = answer if isinstance(answer, Exception) else None
            found = SimpleNamespace(error_code=0, offset=answer)
        else:
            epoch = int(partition.leader_epoch)
            self.requested_epochs.append(epoch)
            answer = self.epoch_ends.get(epoch, -1)
            code = answer if isinstance(answer, Exception) else None
            found = SimpleNamespace(error_code=0, leader_epoch=epoch, end_offset=answer)
        if code is not None:
            raise code
        return SimpleNamespace(topics=(SimpleNamespace(partitions=(found,)),))
