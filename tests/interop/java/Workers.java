import java.io.FileInputStream;
import java.io.InputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.cli.ConnectDistributed;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.runtime.Connect;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Distributed workers of Kafka Connect, each the only one of its cluster, in one process. Takes their
 * files. Ends with its input.
 */
public final class Workers {
    /** Less than the 90 s after which a request to a worker that cannot serve it ends. */
    private static final long REQUEST_MS = 20_000;

    private Workers() {
    }

    /** A source that gives the values in its settings to one task. */
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
            String became = stored == null ? "left out" : "stored";
            System.out.println(became + "\t" + record.topic() + "\t" + record.value());
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

    /** A sink that prints the topics and the values of what it reads. */
    public static final class Prints extends SinkConnector {
        private Map<String, String> settings = Map.of();

        @Override
        public void start(Map<String, String> given) {
            settings = given;
        }

        @Override
        public Class<? extends Task> taskClass() {
            return PrintsTask.class;
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
            return new ConfigDef();
        }

        @Override
        public String version() {
            return "1";
        }
    }

    /** Prints records. */
    public static final class PrintsTask extends SinkTask {
        @Override
        public void start(Map<String, String> settings) {
            // there are none
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord record : records) {
                System.out.println("read\t" + record.topic() + "\t" + record.value());
            }
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

    public static void main(String[] arguments) throws Exception {
        List<Connect<?>> workers = new ArrayList<>();
        for (String file : arguments) {
            Properties properties = new Properties();
            try (InputStream input = new FileInputStream(file)) {
                properties.load(input);
            }
            Map<String, String> settings = new HashMap<>();
            properties.forEach((key, value) -> settings.put((String) key, (String) value));
            Connect<?> worker = new ConnectDistributed().startConnect(settings);
            worker.rest().requestTimeout(REQUEST_MS);
            workers.add(worker);
        }
        System.out.println("started");
        while (System.in.read() >= 0) {
            // until it is closed
        }
        workers.forEach(Connect::stop);
        workers.forEach(Connect::awaitStop);
        System.exit(0);
    }
}
