import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Uses the Java client as an application does, and prints a line for each thing that happened. */
public final class Interop {
    private static Properties common(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        return properties;
    }

    private static void print(String value, Throwable error) {
        if (error == null) {
            System.out.println("stored\t" + value);
        } else {
            System.out.println("refused\t" + value + "\t" + error.getClass().getSimpleName() + "\t"
                + String.valueOf(error.getMessage()).replace('\n', ' '));
        }
    }

    private static void report(List<String> values, List<Future<RecordMetadata>> results)
        throws InterruptedException {
        for (int i = 0; i < values.size(); i++) {
            try {
                results.get(i).get();
                print(values.get(i), null);
            } catch (ExecutionException failed) {
                print(values.get(i), failed.getCause());
            }
        }
    }

    /** All values in one batch. */
    private static void produce(String bootstrap, String topic, List<String> values)
        throws InterruptedException {
        Properties properties = common(bootstrap);
        properties.put("linger.ms", "60000"); // until it is flushed
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> results = new ArrayList<>();
            for (String value : values) {
                results.add(producer.send(new ProducerRecord<>(topic, 0, "k", value)));
            }
            producer.flush();
            report(values, results);
        }
    }

    /** Batches, each behind a "/", and the offsets that the producer concludes. */
    private static void offsets(String bootstrap, String topic, List<String> values)
        throws InterruptedException, ExecutionException {
        Properties properties = common(bootstrap);
        properties.put("linger.ms", "60000"); // until it is flushed
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> results = new ArrayList<>();
            for (String value : values) {
                if (value.equals("/")) {
                    producer.flush();
                } else {
                    results.add(producer.send(new ProducerRecord<>(topic, 0, "k", value)));
                }
            }
            producer.flush();
            for (Future<RecordMetadata> result : results) {
                System.out.println(result.get().offset());
            }
        }
    }

    /** A hundred batches of ten with five in flight, one of them with a bad record. */
    private static void poisoned(String bootstrap, String topic) throws InterruptedException {
        Properties properties = common(bootstrap);
        properties.put("enable.idempotence", "true");
        properties.put("max.in.flight.requests.per.connection", "5");
        properties.put("linger.ms", "0");
        properties.put("batch.size", "400");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<String> values = new ArrayList<>();
            List<Future<RecordMetadata>> results = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                String value = String.format("%s-%04d", i == 505 ? "bad" : "good", i);
                values.add(value);
                results.add(producer.send(new ProducerRecord<>(topic, 0, "k", value)));
            }
            producer.flush();
            report(values, results);
        }
    }

    /** A transaction that is refused and aborted, then one that commits. */
    private static void transact(String bootstrap, String topic, List<String> first)
        throws InterruptedException {
        Properties properties = common(bootstrap);
        properties.put("transactional.id", "interop-" + topic);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (String value : first) {
                try {
                    producer.send(new ProducerRecord<>(topic, 0, "k", value)).get();
                    print(value, null);
                } catch (KafkaException failed) {
                    print(value, failed); // the transaction has failed before
                } catch (ExecutionException failed) {
                    print(value, failed.getCause());
                }
            }
            try {
                producer.commitTransaction();
                System.out.println("committed");
            } catch (RuntimeException failed) {
                System.out.println("not committed\t" + failed.getClass().getSimpleName());
                producer.abortTransaction();
                System.out.println("aborted");
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, "k", "good-after"));
            producer.commitTransaction();
            System.out.println("committed");
        }
    }

    /** Many records at an even pace, through whatever happens to the connection. */
    private static void many(String bootstrap, String topic, int count, int perSecond)
        throws InterruptedException {
        Properties properties = common(bootstrap);
        properties.put("linger.ms", "5");
        properties.put("batch.size", "4000");
        properties.put("reconnect.backoff.max.ms", "500");
        int acknowledged = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> results = new ArrayList<>();
            long begun = System.nanoTime();
            for (int i = 0; i < count; i++) {
                pace(begun, i, perSecond);
                String key = "k" + i % 10;
                results.add(producer.send(new ProducerRecord<>(topic, key, Integer.toString(i))));
            }
            producer.flush();
            for (int i = 0; i < count; i++) {
                try {
                    results.get(i).get();
                    acknowledged++;
                } catch (ExecutionException failed) {
                    print(Integer.toString(i), failed.getCause());
                }
            }
        }
        System.out.println("acknowledged\t" + acknowledged);
    }

    /** The same in transactions of 500; one that has to be aborted is done again. */
    private static void manyTransactions(String bootstrap, String topic, int count, int perSecond)
        throws InterruptedException {
        Properties properties = common(bootstrap);
        properties.put("transactional.id", "many-" + topic);
        properties.put("linger.ms", "5");
        properties.put("batch.size", "4000");
        properties.put("reconnect.backoff.max.ms", "500");
        int acknowledged = 0;
        int aborted = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.initTransactions();
            long begun = System.nanoTime();
            while (acknowledged < count) {
                int until = Math.min(count, acknowledged + 500);
                producer.beginTransaction();
                try {
                    for (int i = acknowledged; i < until; i++) {
                        pace(begun, i, perSecond);
                        producer.send(
                            new ProducerRecord<>(topic, "k" + i % 10, Integer.toString(i)));
                    }
                    commit(producer);
                    acknowledged = until;
                } catch (KafkaException failed) {
                    aborted++;
                    producer.abortTransaction();
                }
            }
        }
        System.out.println("aborted\t" + aborted);
        System.out.println("acknowledged\t" + acknowledged);
    }

    /** A commit that took too long may be tried again, and nothing else may. */
    private static void commit(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException again) {
                System.out.println("commit again");
            }
        }
    }

    private static void pace(long begun, int done, int perSecond) throws InterruptedException {
        long ahead = done * 1_000_000_000L / perSecond - (System.nanoTime() - begun);
        if (ahead > 2_000_000) {
            Thread.sleep(ahead / 1_000_000);
        }
    }

    private static void consume(String bootstrap, String topic, String protocol, int count) {
        Properties properties = common(bootstrap);
        properties.put("group.id", "java-" + protocol + "-" + topic);
        properties.put("group.protocol", protocol);
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        long deadline = System.currentTimeMillis() + 30_000;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(Collections.singletonList(topic));
            int seen = 0;
            while (seen < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    System.out.println("consumed\t" + record.value());
                    seen++;
                }
            }
            consumer.commitSync();
            System.out.println("group offsets committed");
        }
    }

    public static void main(String[] arguments)
        throws InterruptedException, ExecutionException {
        String bootstrap = arguments[1];
        String topic = arguments[2];
        List<String> rest = Arrays.asList(arguments).subList(3, arguments.length);
        switch (arguments[0]) {
            case "produce":
                produce(bootstrap, topic, rest);
                break;
            case "offsets":
                offsets(bootstrap, topic, rest);
                break;
            case "poisoned":
                poisoned(bootstrap, topic);
                break;
            case "transact":
                transact(bootstrap, topic, rest);
                break;
            case "many":
                many(bootstrap, topic, Integer.parseInt(rest.get(0)),
                    Integer.parseInt(rest.get(1)));
                break;
            case "many-transactions":
                manyTransactions(bootstrap, topic, Integer.parseInt(rest.get(0)),
                    Integer.parseInt(rest.get(1)));
                break;
            case "consume":
                consume(bootstrap, topic, rest.get(0), Integer.parseInt(rest.get(1)));
                break;
            default:
                throw new IllegalArgumentException(arguments[0]);
        }
    }
}
