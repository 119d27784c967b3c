import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** What many_producers.py does, with the Java client. */
public final class ManyProducers {
    private static final int KEYS = 10;
    private static final int BURST = 30; // so that several batches are in flight
    private static final int TRANSACTION = 30;
    private static final int WINDOW = 300; // records without an answer: see many_producers.py
    private static volatile boolean ended = false;

    private final String name;
    private final String topic;
    private final int rate;
    private final Properties properties = new Properties();
    private long begun = System.nanoTime();
    private long sent = 0;

    private ManyProducers(int rate, String name, String kind, String bootstrap, String topic) {
        this.rate = rate;
        this.name = name;
        this.topic = topic;
        properties.put("bootstrap.servers", bootstrap.replace('+', ','));
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("linger.ms", "1");
        properties.put("batch.size", "110");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("delivery.timeout.ms", "280000");
        properties.put("request.timeout.ms", "15000");
        if (kind.equals("transactional")) {
            properties.put("transactional.id", topic);
            properties.put("transaction.timeout.ms", "280000");
        }
    }

    private void note(String event, Object value, String text) {
        String at = String.format("%.3f", System.currentTimeMillis() / 1000.0);
        System.out.println(
            String.join("\t", name, event, String.valueOf(value), at, text.replace('\n', ' ')));
    }

    private void pace() throws InterruptedException {
        if (++sent % BURST != 0) {
            return;
        }
        long now = System.nanoTime();
        long ahead = begun + sent * 1_000_000_000L / rate - now;
        if (ahead > 0) {
            Thread.sleep(ahead / 1_000_000, (int) (ahead % 1_000_000));
        }
        begun = Math.max(begun, now - sent * 1_000_000_000L / rate - 200_000_000L);
    }

    private ProducerRecord<String, String> record(int number) {
        return new ProducerRecord<>(topic, "k" + number % KEYS, Integer.toString(number));
    }

    private void idempotent(KafkaProducer<String, String> producer) throws InterruptedException {
        Semaphore window = new Semaphore(WINDOW);
        for (int number = 0; !ended; number++) {
            pace();
            window.acquire();
            String value = Integer.toString(number);
            producer.send(record(number), (metadata, error) -> {
                window.release();
                if (error == null) {
                    note("acknowledged", value, "");
                } else {
                    note("failed", value, error.toString());
                }
            });
        }
        producer.flush();
    }

    private void transactional(KafkaProducer<String, String> producer)
        throws InterruptedException {
        again(producer::initTransactions);
        int begin = 0;
        while (!ended) {
            try {
                producer.beginTransaction();
                for (int number = begin; number < begin + TRANSACTION; number++) {
                    pace();
                    producer.send(record(number));
                }
                again(producer::commitTransaction);
            } catch (ProducerFencedException failed) {
                throw failed;
            } catch (KafkaException failed) {
                note("aborted", begin, failed.toString());
                again(producer::abortTransaction);
                continue;
            }
            for (int number = begin; number < begin + TRANSACTION; number++) {
                note("acknowledged", number, "");
            }
            begin += TRANSACTION;
        }
    }

    private static void again(Runnable call) {
        for (int attempt = 0; ; attempt++) {
            try {
                call.run();
                return;
            } catch (TimeoutException failed) {
                if (attempt == 2) {
                    throw failed;
                }
            }
        }
    }

    private void run() {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            if (properties.containsKey("transactional.id")) {
                transactional(producer);
            } else {
                idempotent(producer);
            }
        } catch (KafkaException | IllegalStateException failed) {
            note("fatal", "", failed.toString());
        } catch (InterruptedException failed) {
            note("fatal", "", failed.toString());
        }
        note("ended", "", "");
    }

    public static void main(String[] arguments) throws Exception {
        int rate = Integer.parseInt(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] one = arguments[i].split(",");
            threads.add(new Thread(
                new ManyProducers(rate, one[0], one[1], one[2], one[3])::run, one[0]));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        while (System.in.read() >= 0) {
            continue;
        }
        ended = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
