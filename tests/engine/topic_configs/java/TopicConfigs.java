import java.util.TreeSet;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints the names of the configs that a broker has for topics. */
public class TopicConfigs {
    public static void main(String[] arguments) {
        new TreeSet<>(LogConfig.configNames()).forEach(System.out::println);
    }
}
