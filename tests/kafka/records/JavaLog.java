import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecords.RecordFilter;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.internals.BufferSupplier;

/**
 * Stores, compacts and reads batches with a broker's and a consumer's classes.
 *
 * <p>Reads lines. "store codec timestamp-type base-offset record record ..." (a record being
 * "timestamp,key,value,header,value,..." in hexadecimal, null: "-") prints the batch as it is
 * stored. "compact codec ..." prints it after compaction, which removes records whose key begins with
 * "d". "read batch" prints a line "offset,timestamp,key,value,header,value,..." in hexadecimal, the
 * records separated by spaces.
 */
public class JavaLog {
    private static final long NOW = 1_800_000_000_000L;

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("read")) {
                System.out.println(read(HexFormat.of().parseHex(words[1])));
                continue;
            }
            MemoryRecords stored = store(words);
            ByteBuffer written =
                words[0].equals("compact") ? compacted(stored) : stored.buffer().duplicate();
            byte[] batch = new byte[written.remaining()];
            written.get(batch);
            System.out.println(HexFormat.of().formatHex(batch));
        }
    }

    private static MemoryRecords store(String[] words) {
        List<SimpleRecord> records = new ArrayList<>();
        for (int i = 4; i < words.length; i++) {
            records.add(record(words[i].split(",")));
        }
        Compression compression = Compression.of(CompressionType.forName(words[1])).build();
        return MemoryRecords.withRecords(
            RecordBatch.MAGIC_VALUE_V2, Long.parseLong(words[3]), compression,
            TimestampType.forName(words[2]), records.toArray(new SimpleRecord[0]));
    }

    private static ByteBuffer compacted(MemoryRecords stored) {
        RecordFilter filter = new RecordFilter(NOW, 60_000) {
            @Override
            protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                return new BatchRetentionResult(BatchRetention.RETAIN_EMPTY, false);
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return !record.hasKey() || !record.key().hasRemaining() || record.key().get(0) != 'd';
            }
        };
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        ByteBuffer written =
                stored.filterTo(filter, buffer, BufferSupplier.NO_CACHING, Integer.MAX_VALUE).outputBuffer();
        written.flip();
        return written;
    }

    private static String read(byte[] batch) {
        List<String> records = new ArrayList<>();
        for (MutableRecordBatch one : MemoryRecords.readableRecords(ByteBuffer.wrap(batch)).batches()) {
            one.ensureValid();
            for (Record record : one) {
                List<String> fields = new ArrayList<>();
                fields.add(Long.toString(record.offset()));
                fields.add(Long.toString(record.timestamp()));
                fields.add(record.hasKey() ? hex(record.key()) : "-");
                fields.add(record.hasValue() ? hex(record.value()) : "-");
                for (Header header : record.headers()) {
                    fields.add(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))));
                    byte[] value = header.value();
                    fields.add(value == null ? "-" : hex(ByteBuffer.wrap(value)));
                }
                records.add(String.join(",", fields));
            }
        }
        return String.join(" ", records);
    }

    private static SimpleRecord record(String[] fields) {
        Header[] headers = new Header[(fields.length - 3) / 2];
        for (int i = 0; i < headers.length; i++) {
            String key = new String(bytes(fields[3 + 2 * i]), StandardCharsets.UTF_8);
            headers[i] = new RecordHeader(key, bytes(fields[4 + 2 * i]));
        }
        return new SimpleRecord(
            Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers);
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : HexFormat.of().parseHex(field.substring(1));
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return "x" + HexFormat.of().formatHex(bytes);
    }
}
