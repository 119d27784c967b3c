"""The names of dead letter topics, as a gateway with a file of its own checks them."""

from pathlib import Path
from types import SimpleNamespace

from penstock.configuration.file import read_configuration
from penstock.engine.plans.plan import Plan
from penstock.engine.topic_configs.index import UnreadableTopicConfigsError
from penstock.engine.verdict import ACCEPTED
from penstock.gateway.admin.policy_checks import PolicyChecks
from penstock.gateway.produce.dead_letters.names import LetterNames
from penstock.kafka.client.connections.metadata import TopicLeaders
from penstock.kafka.cluster.compacted_topic import CompactedTopicError

FILE = {
    "upstream.bootstrap.servers": "a:9",
    "record.validator.classes": "a.V",
    "penstock.mode": "quarantine",
    "policies": "first",
    "policies.first.type": "KeyRequired",
}


class TopicConfigs:
    """The keys that were set on topics, by name and id; `unread` is what another gateway wrote."""

    are_stored = True

    def __init__(self):
        self.keys, self.unread, self.seen = {}, {}, []
        self.store, self.failure = self, None

    def set(self, topic, topic_id, at=0.0, **own):
        self.keys[topic, topic_id] = own, at

    def names(self, topic):
        return any(name == topic for name, _ in self.keys)

    def changed_at(self, topic):
        return max((at for (name, _), (_, at) in self.keys.items() if name == topic), default=0.0)

    def of(self, topic, topic_id):
        own, _ = self.keys.get((topic, topic_id), ({}, 0.0))
        if own is None:
            raise UnreadableTopicConfigsError(f"topic {topic}: not readable")
        return own

    def unknown(self, topics):
        return [topic for topic in topics if topic not in self.seen]

    async def read_to_end(self):
        if self.failure is not None:
            raise CompactedTopicError(self.failure)
        self.keys |= self.unread

    def see(self, topics):
        self.seen += topics


class Gateway:
    """A gateway with policies of topics and records; `verdicts` are those of `CreateTopicPolicy`."""

    def __init__(self, create_topic=None, **properties):
        self.create_topic, self.needs_context = create_topic, False
        self.topic_configs, self.cluster = TopicConfigs(), self
        self.judged, self.verdicts, self.refusals, self.disallowed = [], [], [], []
        self.time = 100.0
        self.load(**properties)

    def load(self, **properties):
        given = {**FILE, **{key.replace("__", "."): value for key, value in properties.items()}}
        configuration = read_configuration(Path("/f"), given)
        self.policies = SimpleNamespace(plan=Plan(configuration.policies), topics=self)
        self.own_topics = configuration.own_topics

    @property
    def names(self):
        return LetterNames(self, self.own_topics, PolicyChecks(self).creation, lambda: self.time)

    async def creation(self, creation, context, *, is_observed=False):
        self.judged.append(creation)
        return self.verdicts.pop(0) if self.verdicts else ACCEPTED

    def refused(self, refused):
        self.refusals.append(refused)

    def disallow(self, topic):
        self.disallowed.append(topic)


def any_names():
    """Return names that are checked by a file without special topics."""
    return Gateway().names


def found(topic, topic_id):
    """Return a topic as a look-up finds it."""
    return TopicLeaders(topic, 0, topic_id, {})
