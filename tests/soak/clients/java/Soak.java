import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client: what librdkafka.py does, with the same arguments and lines. */
public final class Soak {
    private static final int KEYS = 10;
    private static final int BURST = 10;
    private static final int TRANSACTION = 12;
    private static final int WINDOW = 200;
    private static volatile boolean over = false;

    private final String name;
    private final String kind;
    private final String topic;
    private final String mix;
    private final int rate;
    private final Properties properties = new Properties();
    private final long[] begun = {System.nanoTime()};
    private int number = 0;
    private int run = 0;

    private Soak(String bootstrap, int rate, String[] producer) {
        this.rate = rate;
        name = producer[0];
        kind = producer[1];
        topic = producer[2];
        mix = producer[3];
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("linger.ms", "2");
        properties.put("batch.size", "250");
        properties.put("acks", "all");
        properties.put("retry.backoff.ms", "50");
        properties.put("reconnect.backoff.max.ms", "500");
        properties.put("delivery.timeout.ms", "60000");
        properties.put("request.timeout.ms", "20000");
        properties.put("enable.idempotence", String.valueOf(!kind.equals("plain")));
        if (kind.equals("transactional")) {
            properties.put("transactional.id", name);
            properties.put("transaction.timeout.ms", "60000");
        }
    }

    private void note(int ofRun, String event, String numbers, String why) {
        String at = String.format("%.3f", System.currentTimeMillis() / 1000.0);
        String text = why.replaceAll("\\s+", " ");
        text = text.substring(0, Math.min(200, text.length()));
        System.out.println(
            String.join("\t", name, String.valueOf(ofRun), event, numbers, at, text));
    }

    private void pace() throws InterruptedException {
        if (number % BURST != 0) {
            return;
        }
        long now = System.nanoTime();
        long due = number * 1_000_000_000L / rate;
        long ahead = begun[0] + due - now;
        if (ahead > 0) {
            Thread.sleep(ahead / 1_000_000);
        }
        begun[0] = Math.max(begun[0], now - due - 200_000_000L);
    }

    private ProducerRecord<String, String> next() {
        char letter = mix.charAt(number % mix.length());
        String value = letter + ":" + name + ":" + run + ":" + number;
        return new ProducerRecord<>(topic, "k" + number++ % KEYS, value);
    }

    private static boolean isRefusal(Throwable error) {
        return error instanceof InvalidRecordException || error instanceof PolicyViolationException;
    }

    private static String text(Throwable error) {
        // Without what stands behind the class: offsets and numbers are never the same twice.
        return error.getClass().getSimpleName();
    }

    private void steady(KafkaProducer<String, String> producer) throws InterruptedException {
        Semaphore window = new Semaphore(WINDOW);
        int mine = run;
        while (!over) {
            pace();
            window.acquire();
            String sent = String.valueOf(number);
            producer.send(next(), (metadata, error) -> {
                window.release();
                if (error == null) {
                    note(mine, "acknowledged", sent, "");
                } else {
                    note(mine, isRefusal(error) ? "refused" : "unknown", sent, text(error));
                }
            });
        }
        producer.flush();
    }

    private void transact(KafkaProducer<String, String> producer) throws InterruptedException {
        again(producer::initTransactions);
        while (!over) {
            int first = number;
            producer.beginTransaction();
            try {
                try {
                    for (int i = 0; i < TRANSACTION; i++) {
                        pace();
                        producer.send(next());
                    }
                    again(producer::commitTransaction);
                    note(run, "committed", range(first), "");
                } catch (ProducerFencedException | TimeoutException failed) {
                    throw failed;
                } catch (KafkaException failed) {
                    again(producer::abortTransaction);
                    note(run, "aborted", range(first), text(failed));
                }
            } catch (KafkaException | IllegalStateException failed) {
                if (number > first) {
                    note(run, "unknown", range(first), text(failed));
                }
                throw failed;
            }
        }
    }

    private String range(int first) {
        return first + "-" + (number - 1);
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
        while (!over) {
            run++;
            AtomicReference<Throwable> dead = new AtomicReference<>();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
                if (kind.equals("transactional")) {
                    transact(producer);
                } else {
                    steady(producer);
                }
            } catch (KafkaException | IllegalStateException | InterruptedException failed) {
                dead.set(failed);
            }
            if (dead.get() != null) {
                note(run, "dead", "", text(dead.get()));
            }
        }
        note(run, "ended", "", "");
    }

    public static void main(String[] arguments) throws Exception {
        int rate = Integer.parseInt(arguments[1]);
        List<Thread> threads = new ArrayList<>();
        for (int i = 3; i < arguments.length; i++) {
            Soak producer = new Soak(arguments[0], rate, arguments[i].split(","));
            threads.add(new Thread(producer::run, producer.name));
        }
        threads.forEach(Thread::start);
        while (System.in.read() >= 0) {
            continue;
        }
        over = true;
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
