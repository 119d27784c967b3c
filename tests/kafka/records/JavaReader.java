import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;
import org.apache.kafka.common.utils.internals.PrimitiveRef;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * Reads batches as a consumer and as a broker do: takes batches from stdin, each after its length in four
 * bytes, and prints a line for each: what the consumer reads ("NUMBER:CHECKSUM" of the records, or the
 * class of its error), and "stored" or the class of the broker's error.
 */
public class JavaReader {
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    private static final PrintStream OUT =
        new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false);

    private interface Work {
        String done() throws Exception;
    }

    public static void main(String[] args) throws Exception {
        InputStream in = new BufferedInputStream(System.in, 1 << 16);
        for (byte[] size = in.readNBytes(4); size.length > 0; size = in.readNBytes(4)) {
            byte[] batch = in.readNBytes(ByteBuffer.wrap(size).getInt());
            OUT.println(outcome(() -> consumed(batch)) + " " + outcome(() -> stored(batch.clone())));
        }
        OUT.flush();
    }

    private static String outcome(Work work) {
        try {
            return work.done();
        } catch (Throwable error) {
            return error.getClass().getSimpleName();
        }
    }

    /** As CompletedFetch does, with check.crcs. */
    private static String consumed(byte[] data) throws Exception {
        CRC32 checksum = new CRC32();
        int count = 0;
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> records = batch.streamingIterator(BUFFERS)) {
                while (records.hasNext()) {
                    Record record = records.next();
                    record.ensureValid();
                    add(checksum, record);
                    count++;
                }
            }
        }
        return String.format("%d:%08x", count, checksum.getValue());
    }

    private static void add(CRC32 checksum, Record record) {
        checksum.update(ByteBuffer.allocate(16).putLong(record.offset()).putLong(record.timestamp()).flip());
        add(checksum, record.key());
        add(checksum, record.value());
        add(checksum, record.headers().length);
        for (Header header : record.headers()) {
            add(checksum, ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8)));
            add(checksum, header.value() == null ? null : ByteBuffer.wrap(header.value()));
        }
    }

    private static void add(CRC32 checksum, ByteBuffer field) {
        add(checksum, field == null ? -1 : field.remaining());
        if (field != null) {
            checksum.update(field);
        }
    }

    private static void add(CRC32 checksum, int number) {
        checksum.update(ByteBuffer.allocate(4).putInt(number).flip());
    }

    /** As UnifiedLog does before it appends what a producer sent. */
    private static String stored(byte[] data) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(data));
        CompressionType source = null;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            source = batch.compressionType();
        }
        new LogValidator(
            records, new TopicPartition("topic", 0), Time.SYSTEM, source, Compression.of(source).build(),
            false, RecordBatch.CURRENT_MAGIC_VALUE, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE,
            0, AppendOrigin.CLIENT)
            .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), NOTHING_COUNTED, BUFFERS);
        return "stored";
    }

    private static final LogValidator.MetricsRecorder NOTHING_COUNTED = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() {}

        public void recordInvalidOffset() {}

        public void recordInvalidSequence() {}

        public void recordInvalidChecksums() {}

        public void recordNoKeyCompactedTopic() {}
    };
}
