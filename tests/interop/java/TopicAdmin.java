import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.StringSerializer;

/** A topic's own policies by the Java admin client; prints a line for each thing that happened. */
public final class TopicAdmin implements AutoCloseable {
    private static final String POLICY = "records.policy.class.name";
    private static final String ENABLED = "records.policy.enabled";
    private static final String VALIDATION = "record.validation.policy";
    private static final String RETENTION = "retention.ms";
    private static final List<String> SHOWN = List.of(VALIDATION, POLICY, ENABLED, RETENTION);

    private final String bootstrap;
    private final String topic;
    private final ConfigResource resource;
    private final Admin admin;

    private TopicAdmin(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    @Override
    public void close() {
        admin.close();
    }

    /** Print what became of something. */
    private static boolean report(String what, Future<?> future) throws InterruptedException {
        try {
            future.get();
            System.out.println(what);
            return true;
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            System.out.println("not " + what + "\t" + cause.getClass().getSimpleName() + "\t"
                + String.valueOf(cause.getMessage()).replace('\n', ' '));
            return false;
        }
    }

    private static void print(Config config) {
        for (String name : SHOWN) {
            ConfigEntry entry = config.get(name);
            System.out.println("config\t" + name + "\t"
                + (entry == null ? "missing"
                    : entry.value() + "\t" + entry.source() + "\t" + entry.type()));
        }
    }

    private void create(Map<String, String> configs) throws InterruptedException, ExecutionException {
        NewTopic wanted = new NewTopic(topic, 1, (short) 1).configs(configs);
        CreateTopicsResult result = admin.createTopics(Collections.singleton(wanted));
        if (!report("created", result.all())) {
            return;
        }
        awaitKnown(result.topicId(topic).get());
        if (!configs.isEmpty()) {
            Config described = result.config(topic).get();
            for (String name : SHOWN) {
                ConfigEntry entry = described.get(name);
                System.out.println("described\t" + name + "\t" + entry.value() + "\t" + entry.source());
            }
        }
    }

    /** A broker answers before it knows the new topic itself, and may still know a deleted one. */
    private void awaitKnown(Uuid id) throws InterruptedException, ExecutionException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (true) {
            try {
                Map<String, TopicDescription> known =
                    admin.describeTopics(Collections.singleton(topic)).allTopicNames().get();
                if (known.get(topic).topicId().equals(id)) {
                    return;
                }
            } catch (ExecutionException failed) {
                if (!(failed.getCause() instanceof UnknownTopicOrPartitionException)) {
                    throw failed;
                }
            }
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("not known after 30 s: " + topic);
            }
            Thread.sleep(20);
        }
    }

    private void delete() throws InterruptedException {
        report("deleted", admin.deleteTopics(Collections.singleton(topic)).all());
    }

    private void describe() throws InterruptedException, ExecutionException {
        print(admin.describeConfigs(Collections.singleton(resource)).all().get().get(resource));
    }

    private static AlterConfigOp change(AlterConfigOp.OpType type, String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private static AlterConfigOp set(String name, String value) {
        return change(AlterConfigOp.OpType.SET, name, value);
    }

    private static AlterConfigOp delete(String name) {
        return change(AlterConfigOp.OpType.DELETE, name, null);
    }

    private void alter(boolean validateOnly, AlterConfigOp... changes) throws InterruptedException {
        Collection<AlterConfigOp> all = Arrays.asList(changes);
        AlterConfigsOptions options = new AlterConfigsOptions().validateOnly(validateOnly);
        report("altered", admin.incrementalAlterConfigs(Map.of(resource, all), options).all());
    }

    private void produce(String... values) throws InterruptedException {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            List<Future<?>> results = new ArrayList<>();
            for (String value : values) {
                results.add(producer.send(new ProducerRecord<>(topic, value)));
                producer.flush();
            }
            for (int i = 0; i < values.length; i++) {
                report("stored " + values[i], results.get(i));
            }
        }
    }

    private void roundTrip() throws InterruptedException, ExecutionException {
        create(Map.of(POLICY, "policies.NotAllowed", ENABLED, "true"));
        create(Map.of(POLICY, "policies.NoBad", ENABLED, "true", RETENTION, "86400000"));
        produce("bad-1", "good-1");
        describe();
        alter(true, set(ENABLED, "false"));
        produce("bad-2");
        alter(false, set(ENABLED, "false"));
        produce("bad-3");
        alter(false, set(POLICY, "policies.NotAllowed"));
        alter(false, set(ENABLED, "maybe"));
        alter(false, set(ENABLED, "true"), set(RETENTION, "long"));
        alter(false, change(AlterConfigOp.OpType.APPEND, POLICY, "policies.NoBad"));
        describe();
        alter(false, delete(ENABLED), delete(POLICY), set(VALIDATION, "worse"));
        produce("worse-1");
        describe();
        delete();
        create(Map.of());
        describe();
        produce("bad-4", "worse-2");
    }

    public static void main(String[] arguments) throws InterruptedException, ExecutionException {
        try (TopicAdmin run = new TopicAdmin(arguments[0], arguments[1])) {
            run.roundTrip();
        }
    }
}
