import java.time.Duration;
import java.util.Collections;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Uses every partition of a topic by TLS: OnePort BOOTSTRAP CA TOPIC PARTITIONS. */
public final class OnePort {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[2];
        int partitions = Integer.parseInt(arguments[3]);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("security.protocol", "SSL");
        properties.put("ssl.truststore.type", "PEM");
        properties.put("ssl.truststore.location", arguments[1]);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        properties.put("group.id", topic);
        properties.put("auto.offset.reset", "earliest");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int i = 0; i < partitions; i++) {
                producer.send(new ProducerRecord<>(topic, i, null, "java-" + i)).get();
            }
        }
        TreeSet<String> found = new TreeSet<>();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singleton(topic));
            while (found.size() < partitions) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofSeconds(1))) {
                    found.add(one.value());
                }
            }
        }
        found.forEach(System.out::println);
        try (Admin admin = Admin.create(properties)) {
            TreeSet<String> nodes = new TreeSet<>();
            for (Node node : admin.describeCluster().nodes().get()) {
                nodes.add(node.id() + " " + node.host() + ":" + node.port());
            }
            nodes.forEach(System.out::println);
        }
    }
}
