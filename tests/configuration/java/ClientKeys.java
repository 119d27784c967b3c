import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the names of the keys of Kafka's clients. */
public class ClientKeys {
    public static void main(String[] arguments) {
        TreeSet<String> names = new TreeSet<>(AdminClientConfig.configNames());
        names.addAll(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.forEach(System.out::println);
    }
}
