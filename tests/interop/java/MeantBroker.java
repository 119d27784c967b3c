import java.util.Properties;
import java.util.Scanner;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Stores each line of its input in a topic, over connections that name the broker they mean. */
public final class MeantBroker {
    private MeantBroker() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("metadata.cluster.check.enable", "true");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
                Scanner input = new Scanner(System.in)) {
            while (input.hasNextLine()) {
                String value = input.nextLine();
                producer.send(new ProducerRecord<>(arguments[1], value)).get();
                System.out.println("stored\t" + value);
            }
        }
    }
}
