package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * {"dir": parent, "seed": n, "segments": n, "sets": n, "config": {}}: partition directories legacy-v{0,1}-{codec}-0 of
 * message sets in the formats before v2. Uncompressed sets hold one message each, as brokers of that time wrote them.
 * One line per directory. A quarter of the magic 1 sets carry the log's append time.
 */
public final class WriteLegacy {
    private static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4");

    private WriteLegacy() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            long seed = Program.number(request, "seed", 1);
            for (byte magic = 0; magic <= 1; magic++) {
                for (String codec : CODECS) {
                    File directory = new File(request.get("dir").asText(), "legacy-v" + magic + "-" + codec + "-0");
                    if (!directory.mkdirs()) {
                        throw new IllegalStateException(directory + " cannot be made");
                    }
                    write(request, directory, magic, codec, new RandomRecords(seed++, 1_500_000_000_000L));
                    out.writeStartObject();
                    out.writeStringField("dir", directory.getPath());
                    out.writeEndObject();
                }
            }
        });
    }

    private static void write(JsonNode request, File directory, byte magic, String codec, RandomRecords random)
            throws Exception {
        long segments = Program.number(request, "segments", 2);
        long sets = Program.number(request, "sets", 20);
        long offset = 0;
        for (int s = 0; s < segments; s++) {
            LogSegment segment =
                LogSegment.open(directory, offset, Logs.config(request), Time.SYSTEM, 1 << 20, false);
            for (int i = 0; i < sets; i++) {
                int count = codec.equals("none") ? 1 : 1 + random.random.nextInt(15);
                MemoryRecords set = messageSet(magic, codec, offset, count, random);
                offset += count;
                segment.append(offset - 1, set);
            }
            segment.onBecomeInactiveSegment();
            segment.flush();
            segment.close();
        }
    }

    private static MemoryRecords messageSet(byte magic, String codec, long offset, int count, RandomRecords random) {
        Compression compression = RandomRecords.compression(codec);
        TimestampType type = TimestampType.NO_TIMESTAMP_TYPE;
        if (magic > 0) {
            type = random.oneIn(4) ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        }
        long appendTime = type == TimestampType.LOG_APPEND_TIME ? random.timestamp() : RecordBatch.NO_TIMESTAMP;
        MemoryRecordsBuilder builder =
            MemoryRecords.builder(ByteBuffer.allocate(1 << 16), magic, compression, type, offset, appendTime);
        for (int i = 0; i < count; i++) {
            long timestamp = magic == 0 ? RecordBatch.NO_TIMESTAMP : random.timestamp();
            builder.append(timestamp, random.key(), random.value());
        }
        return builder.build();
    }
}
