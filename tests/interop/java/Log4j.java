import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilder;
import org.apache.logging.log4j.core.config.builder.api.ConfigurationBuilderFactory;
import org.apache.logging.log4j.core.config.builder.impl.BuiltConfiguration;
import org.apache.logging.log4j.status.StatusData;
import org.apache.logging.log4j.status.StatusListener;
import org.apache.logging.log4j.status.StatusLogger;

/**
 * Logs the lines of a file by the KafkaAppender of log4j2: FILE SYNC_SEND (BOOTSTRAP TOPIC)...
 * Prints the errors of log4j2 itself: the topic, the class of the exception and its message.
 */
public final class Log4j {
    private Log4j() {
    }

    /** Prints errors. */
    private static final class Errors implements StatusListener {
        private final String topic;

        Errors(String topic) {
            this.topic = topic;
        }

        @Override
        public void log(StatusData data) {
            Throwable cause = data.getThrowable();
            while (cause != null && cause.getCause() != null) {
                cause = cause.getCause();
            }
            String named = cause == null ? "\t" : cause.getClass().getSimpleName() + "\t" + cause.getMessage();
            System.out.println(topic + "\t" + named);
        }

        @Override
        public Level getStatusLevel() {
            return Level.ERROR;
        }

        @Override
        public void close() {
            // there is nothing to close
        }
    }

    private static void log(List<String> lines, String sync, String bootstrap, String topic) {
        ConfigurationBuilder<BuiltConfiguration> builder =
            ConfigurationBuilderFactory.newConfigurationBuilder();
        builder.add(builder.newAppender("kafka", "Kafka")
            .addAttribute("topic", topic)
            .addAttribute("syncSend", sync)
            .add(builder.newLayout("PatternLayout").addAttribute("pattern", "%m"))
            .addComponent(builder.newProperty("bootstrap.servers", bootstrap)));
        builder.add(builder.newRootLogger(Level.OFF));
        builder.add(builder.newLogger("shipped", Level.INFO).add(builder.newAppenderRef("kafka")));
        Errors errors = new Errors(topic);
        StatusLogger.getLogger().registerListener(errors);
        try (LoggerContext context = Configurator.initialize(builder.build())) {
            lines.forEach(context.getLogger("shipped")::info);
        } // sends what it still has
        StatusLogger.getLogger().removeListener(errors);
    }

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        for (int at = 2; at < arguments.length; at += 2) {
            log(lines, arguments[1], arguments[at], arguments[at + 1]);
        }
    }
}
