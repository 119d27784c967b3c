import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Applications that count the records of each key, with a topic for repartitioning and a changelog.
 * Takes the group protocol, the guarantee, a folder, and for each application its name, the bootstrap
 * address, the source, and the target. Prints the states of the applications, and what ends one. A line
 * of input ends all of them, deletes their local state, and starts them anew. Ends with its input.
 */
public final class Counts {
    private Counts() {
    }

    private record Application(String name, String address, String source, String target) {
        KafkaStreams start(String protocol, String guarantee, String folder) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", address);
            properties.put("application.id", name);
            properties.put("state.dir", folder);
            properties.put("group.protocol", protocol);
            properties.put("processing.guarantee", guarantee);
            properties.put("replication.factor", "1");
            properties.put("commit.interval.ms", "100");
            properties.put("statestore.cache.max.bytes", "0");
            properties.put("consumer.auto.offset.reset", "earliest");
            properties.put("default.key.serde", Serdes.StringSerde.class);
            properties.put("default.value.serde", Serdes.StringSerde.class);
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream(source)
                .groupBy((key, value) -> key)
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(count -> "{\"id\":" + count + "}")
                .to(target);
            KafkaStreams streams = new KafkaStreams(builder.build(), properties);
            streams.setStateListener((now, before) ->
                System.out.println("state\t" + name + "\t" + now));
            streams.setUncaughtExceptionHandler(failed -> {
                Throwable cause = failed;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                System.out.println("ended\t" + name + "\t" + cause.getClass().getSimpleName() + "\t"
                    + cause.getMessage());
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            return streams;
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<Application> applications = new ArrayList<>();
        for (int at = 3; at < arguments.length; at += 4) {
            applications.add(new Application(
                arguments[at], arguments[at + 1], arguments[at + 2], arguments[at + 3]));
        }
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        boolean again = true;
        while (again) {
            List<KafkaStreams> running = new ArrayList<>();
            for (Application application : applications) {
                running.add(application.start(arguments[0], arguments[1], arguments[2]));
            }
            again = input.readLine() != null;
            running.parallelStream().forEach(KafkaStreams::close);
            running.forEach(KafkaStreams::cleanUp);
        }
    }
}
