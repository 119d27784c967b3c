import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A transaction for each value, for the one partition of a topic and the other in turn. */
public final class TransactionsOfOne {
    private TransactionsOfOne() {
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        List<String> values = Arrays.asList(arguments).subList(2, arguments.length);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("transactional.id", "of-one-" + topic);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            for (int i = 0; i < values.size(); i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, i % 2, "k", values.get(i))).get();
                producer.commitTransaction();
                System.out.println("committed\t" + values.get(i));
            }
        }
    }
}
