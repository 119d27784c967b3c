import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Writes the lines of a file by a job of Flink to each topic: FILE (BOOTSTRAP TOPIC)...
 * Prints the failures of jobs: the topic, the class of the last cause and its message.
 */
public final class Flink {
    private Flink() {
    }

    private static void write(List<String> lines, String bootstrap, String topic) {
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        environment.fromData(lines).sinkTo(KafkaSink.<String>builder()
            .setBootstrapServers(bootstrap)
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                .setTopic(topic)
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build());
        try {
            environment.execute(topic);
        } catch (Exception failed) {
            Throwable cause = failed;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.out.println(topic + "\t" + cause.getClass().getSimpleName() + "\t" + cause.getMessage());
        }
    }

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        for (int at = 1; at < arguments.length; at += 2) {
            write(lines, arguments[at], arguments[at + 1]);
        }
    }
}
