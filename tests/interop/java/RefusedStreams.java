import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.ErrorHandlerContext;
import org.apache.kafka.streams.errors.ProductionExceptionHandler;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * Copies a topic to another through a gateway that refuses some records. Prints what the handler of
 * production exceptions gets, what ends the thread, and the states of the client. Ends with its
 * input.
 */
public final class RefusedStreams {
    private RefusedStreams() {
    }

    /** Continues, whatever could not be produced. */
    public static final class Continues implements ProductionExceptionHandler {
        @Override
        public void configure(Map<String, ?> configs) {
            // there is nothing to configure
        }

        @Override
        public ProductionExceptionHandlerResponse handle(
            ErrorHandlerContext context, ProducerRecord<byte[], byte[]> record, Exception failed) {
            System.out.println("left out\t" + new String(record.value()) + "\t" + named(failed));
            return ProductionExceptionHandlerResponse.CONTINUE;
        }
    }

    private static String named(Throwable failed) {
        return failed.getClass().getSimpleName() + "\t" + failed.getMessage();
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[4]);
        properties.put("processing.guarantee", arguments[5]);
        properties.put("replication.factor", "1");
        properties.put("commit.interval.ms", "100");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        if (arguments.length > 6) {
            properties.put("production.exception.handler", Continues.class);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(arguments[2]).to(arguments[3]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), properties)) {
            streams.setStateListener((now, before) -> System.out.println("state\t" + now));
            streams.setUncaughtExceptionHandler(failed -> {
                Throwable cause = failed;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("ended\t" + named(cause));
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (System.in.read() >= 0) {
                // until it is closed
            }
        }
    }
}
