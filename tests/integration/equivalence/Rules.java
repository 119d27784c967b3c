import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** Refuses what its twin in test_same_verdicts.py refuses, with the same words. */
public final class Rules implements CreateTopicPolicy {
    private static final long WEEK_MS = 604_800_000L;

    private String prefix;

    @Override
    public void configure(Map<String, ?> configs) {
        prefix = (String) configs.get("rules.prefix");
    }

    @Override
    public void validate(RequestMetadata request) {
        if (!request.topic().startsWith("__")) {
            checkName(request.topic());
            checkPlacement(request);
            checkConfigs(request);
        }
    }

    private void checkName(String topic) {
        if (!topic.startsWith(prefix)) {
            throw new PolicyViolationException("“" + topic + "” does not begin with “" + prefix + "”");
        }
        if (topic.endsWith("-null")) {
            throw new PolicyViolationException(null);
        }
        if (topic.endsWith("-empty")) {
            throw new PolicyViolationException("");
        }
        if (topic.endsWith("-standard")) {
            throw new PolicyViolationException(
                "Request parameters do not satisfy the configured policy.");
        }
    }

    private static void checkPlacement(RequestMetadata request) {
        if (partitions(request) < 2) {
            throw refusal("fewer than 2 partitions", request);
        }
        if (partitions(request) > 10) {
            throw refusal("more than 10 partitions", request);
        }
        if (request.topic().contains("critical") && replicas(request) < 2) {
            throw refusal("critical, and fewer than 2 replicas", request);
        }
    }

    private static void checkConfigs(RequestMetadata request) {
        String retention = request.configs().get("retention.ms");
        if (retention != null && partitions(request) > 5) {
            long milliseconds = Long.parseLong(retention.trim());
            if (milliseconds < 0 || milliseconds > WEEK_MS) {
                throw refusal("kept for more than a week", request);
            }
        }
        if (request.topic().contains("compact") && !request.configs().containsKey("cleanup.policy")) {
            throw refusal("cleanup.policy is missing", request);
        }
        if (request.topic().endsWith("-shown")) {
            throw refusal("shown", request);
        }
    }

    private static int partitions(RequestMetadata request) {
        Map<Integer, List<Integer>> assignments = request.replicasAssignments();
        return assignments == null ? request.numPartitions() : assignments.size();
    }

    private static int replicas(RequestMetadata request) {
        Map<Integer, List<Integer>> assignments = request.replicasAssignments();
        return assignments == null
            ? request.replicationFactor()
            : assignments.values().stream().mapToInt(List::size).min().orElse(0);
    }

    private static PolicyViolationException refusal(String reason, RequestMetadata request) {
        return new PolicyViolationException(
            reason + ": topic=" + request.topic()
                + ", partitions=" + request.numPartitions()
                + ", replicas=" + request.replicationFactor()
                + ", assignments=" + sorted(request.replicasAssignments())
                + ", configs=" + sorted(request.configs()));
    }

    private static <V> Map<?, V> sorted(Map<?, V> map) {
        return map == null ? null : new TreeMap<>(map);
    }

    @Override
    public void close() {
    }
}
