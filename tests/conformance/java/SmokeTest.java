import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/** Produces what Kafka Streams' smoke test reads, and verifies what the instances make of it. */
public class SmokeTest {
    private static final long LONGEST_MS = 180_000;
    private static final long QUIET_MS = 8_000;

    public static void main(String[] arguments) throws InterruptedException {
        String bootstrap = arguments[0];
        int keys = Integer.parseInt(arguments[1]);
        int recordsPerKey = Integer.parseInt(arguments[2]);
        Duration time = Duration.ofSeconds(Integer.parseInt(arguments[3]));
        Map<String, Set<Integer>> produced =
            SmokeTestDriver.generate(bootstrap, keys, recordsPerKey, time);
        awaitQuiet(bootstrap);
        boolean exactlyOnce = true;
        SmokeTestDriver.verify(bootstrap, produced, recordsPerKey, exactlyOnce);
    }

    /** The verification asks for ends twice, and fails where transactions end in between. */
    private static void awaitQuiet(String bootstrap) throws InterruptedException {
        long now = System.currentTimeMillis();
        long deadline = now + LONGEST_MS;
        long since = now;
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(
                Map.<String, Object>of("bootstrap.servers", bootstrap), deserializer, deserializer)) {
            List<TopicPartition> partitions = Arrays.stream(SmokeTestDriver.topics())
                .flatMap(topic -> consumer.partitionsFor(topic).stream())
                .map(found -> new TopicPartition(found.topic(), found.partition()))
                .toList();
            Map<TopicPartition, Long> ends = Map.of();
            while (now < deadline && now - since < QUIET_MS) {
                Map<TopicPartition, Long> found = consumer.endOffsets(partitions);
                if (!found.equals(ends)) {
                    ends = found;
                    since = System.currentTimeMillis();
                }
                Thread.sleep(500);
                now = System.currentTimeMillis();
            }
        }
    }
}
