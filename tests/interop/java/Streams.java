import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Numbers the records of each key (exactly_once_v2), and forwards ticks, so that there are
 * transactions of ticks alone. Prints a line for each record, and each tenth tick. Ends with its
 * input.
 */
public final class Streams {
    private static final AtomicInteger TICKS = new AtomicInteger();

    private Streams() {
    }

    private static final class Numbering
        extends ContextualProcessor<String, String, String, String> {

        private KeyValueStore<String, Integer> counts;

        @Override
        public void init(ProcessorContext<String, String> context) {
            super.init(context);
            counts = context.getStateStore("counts");
            context.schedule(Duration.ofMillis(50), PunctuationType.WALL_CLOCK_TIME, now -> {
                if (TICKS.incrementAndGet() % 10 == 0) {
                    System.out.println("tick");
                }
                context.forward(new Record<>("tick", "drop", now));
            });
        }

        @Override
        public void process(Record<String, String> record) {
            Integer before = counts.get(record.key());
            int count = before == null ? 1 : before + 1;
            counts.put(record.key(), count);
            System.out.println("record");
            context().forward(record.withValue(record.value() + " " + count));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[4]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("replication.factor", "1");
        properties.put("commit.interval.ms", "100");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(
            Stores.inMemoryKeyValueStore("counts"), Serdes.String(), Serdes.Integer()));
        builder.<String, String>stream(arguments[2]).process(Numbering::new, "counts")
            .to(arguments[3]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.setUncaughtExceptionHandler(failed -> {
                Throwable cause = failed;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("failed\t" + cause.getClass().getSimpleName());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (System.in.read() >= 0) {
                // until it is closed
            }
        }
    }
}
