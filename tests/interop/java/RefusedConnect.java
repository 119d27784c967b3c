import java.util.ArrayDeque;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectStandalone;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A standalone worker of Kafka Connect with a source connector that writes the values it is given to
 * a topic, each when the value before it is settled. Prints the values that are stored or left out.
 */
public final class RefusedConnect {
    private RefusedConnect() {
    }

    /** Has one task, with the connector's own settings. */
    public static final class Values extends SourceConnector {
        private Map<String, String> settings = Map.of();

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return ValuesTask.class;
        }

        @Override
        public List<Map<String, String>> taskConfigs(int most) {
            return Collections.singletonList(settings);
        }

        @Override
        public void stop() {
            // nothing is open
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The target.")
                .define("values", ConfigDef.Type.LIST, ConfigDef.Importance.HIGH, "What to write.");
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** Gives a value, waits until it is stored or left out, and gives the next. */
    public static final class ValuesTask extends SourceTask {
        private static final Map<String, String> SOURCE = Map.of("source", "values");
        private final Queue<String> values = new ArrayDeque<>();
        private final Semaphore settled = new Semaphore(1);
        private String topic;
        private long position;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            values.addAll(List.of(settings.get("values").split(",")));
            Map<String, Object> before = context.offsetStorageReader().offset(SOURCE);
            for (position = 0; before != null && position < (Long) before.get("next"); position++) {
                values.remove();
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (values.isEmpty() || !settled.tryAcquire(100, TimeUnit.MILLISECONDS)) {
                Thread.sleep(values.isEmpty() ? 100 : 0);
                return null;
            }
            position++;
            return List.of(new SourceRecord(
                SOURCE, Map.of("next", position), topic, Schema.STRING_SCHEMA, values.remove()));
        }

        @Override
        public void commitRecord(SourceRecord record, RecordMetadata stored) {
            System.out.println((stored == null ? "left out\t" : "stored\t") + record.value());
            settled.release();
        }

        @Override
        public void stop() {
            // nothing is open
        }

        @Override
        public String version() {
            return "1";
        }
    }

    public static void main(String[] arguments) {
        ConnectStandalone.main(arguments);
    }
}
