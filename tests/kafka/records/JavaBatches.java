import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Writes batches as the Java client does: reads lines "codec record record ...", a record being
 * "timestamp,key,value,header,value,..." in hexadecimal (null: "-"), and prints a batch for each.
 */
public class JavaBatches {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            List<SimpleRecord> records = new ArrayList<>();
            for (int i = 1; i < words.length; i++) {
                records.add(record(words[i].split(",")));
            }
            Compression compression = Compression.of(CompressionType.forName(words[0])).build();
            ByteBuffer written =
                MemoryRecords.withRecords(compression, records.toArray(new SimpleRecord[0])).buffer();
            byte[] batch = new byte[written.remaining()];
            written.get(batch);
            System.out.println(HexFormat.of().formatHex(batch));
        }
    }

    private static SimpleRecord record(String[] fields) {
        Header[] headers = new Header[(fields.length - 3) / 2];
        for (int i = 0; i < headers.length; i++) {
            String key = new String(bytes(fields[3 + 2 * i]), java.nio.charset.StandardCharsets.UTF_8);
            headers[i] = new RecordHeader(key, bytes(fields[4 + 2 * i]));
        }
        return new SimpleRecord(
            Long.parseLong(fields[0]), bytes(fields[1]), bytes(fields[2]), headers);
    }

    private static byte[] bytes(String field) {
        return field.equals("-") ? null : HexFormat.of().parseHex(field.substring(1));
    }
}
