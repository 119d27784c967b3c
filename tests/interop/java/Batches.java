import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends batches of known content, a job for each line of the input, and prints what came of it.
 *
 * <p>A job: kind, bootstrap servers, topic, batch.size, the values that are acknowledged before
 * the others go out, the others, and those that follow when all is settled; fields are separated
 * by tabs, values by commas.
 */
public final class Batches {
    private static KafkaProducer<String, String> producer(String[] job) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", job[1]);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("batch.size", job[3]);
        properties.put("linger.ms", "20000"); // a batch goes when it is full or flushed
        properties.put("retry.backoff.ms", "20");
        properties.put("reconnect.backoff.ms", "20");
        properties.put("delivery.timeout.ms", "30000");
        properties.put("request.timeout.ms", "10000");
        if (job[0].equals("transactional")) {
            properties.put("transactional.id", job[2]);
        }
        return new KafkaProducer<>(properties);
    }

    private static List<String> values(String[] job, int field) {
        return job[field].isEmpty() ? List.of() : Arrays.asList(job[field].split(","));
    }

    private static void send(KafkaProducer<String, String> producer, String topic,
        List<String> values, Map<String, Throwable> results) throws InterruptedException {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try {
            for (String value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, null, value)));
            }
            producer.flush();
        } catch (KafkaException failed) {
            results.put(values.get(sent.size()), failed); // a transaction that has failed before
        }
        for (int i = 0; i < sent.size(); i++) {
            try {
                sent.get(i).get();
                results.put(values.get(i), null);
            } catch (ExecutionException failed) {
                results.put(values.get(i), failed.getCause());
            }
        }
    }

    private static void print(Map<String, Throwable> results) {
        for (Map.Entry<String, Throwable> result : results.entrySet()) {
            Throwable error = result.getValue();
            System.out.println((error == null ? "acknowledged\t" : "failed\t") + result.getKey()
                + (error == null ? "" : "\t" + error.getClass().getSimpleName()));
        }
    }

    private static void produce(String[] job) throws InterruptedException {
        Map<String, Throwable> results = new LinkedHashMap<>();
        try (KafkaProducer<String, String> producer = producer(job)) {
            for (int field = 4; field < 7; field++) {
                send(producer, job[2], values(job, field), results);
            }
        }
        print(results);
    }

    private static void transact(String[] job) throws InterruptedException {
        try (KafkaProducer<String, String> producer = producer(job)) {
            producer.initTransactions();
            for (int attempt = 0; attempt < 3; attempt++) {
                Map<String, Throwable> results = new LinkedHashMap<>();
                producer.beginTransaction();
                try {
                    for (int field = 4; field < 6; field++) {
                        send(producer, job[2], values(job, field), results);
                    }
                    producer.commitTransaction();
                    print(results);
                    System.out.println("committed");
                    return;
                } catch (KafkaException failed) {
                    System.out.println("aborted\t" + failed);
                    producer.abortTransaction();
                }
            }
        } catch (KafkaException failed) {
            System.out.println("fatal\t" + failed);
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] job = line.split("\t", -1);
            if (job[0].equals("transactional")) {
                transact(job);
            } else {
                produce(job);
            }
            System.out.println("done");
        }
    }
}
