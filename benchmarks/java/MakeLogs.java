package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;

/**
 * {"logs": [{"file", "codec", "records", "per_batch", "value_bytes"}...]}: .log files in Kafka's own bytes. Values are
 * JSON events: the same field names in each, words of a small vocabulary and numbers. Every file holds the same ones.
 */
public final class MakeLogs {
    private MakeLogs() {}

    public static void main(String[] args) throws Exception {
        for (JsonNode log : Bench.request().get("logs")) {
            make(log);
        }
        System.exit(0);
    }

    static Compression compression(String codec) {
        return switch (codec) {
            case "none" -> Compression.NONE;
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> throw new IllegalArgumentException("no such codec: " + codec);
        };
    }

    private static void make(JsonNode log) throws Exception {
        int records = log.get("records").asInt();
        int perBatch = log.get("per_batch").asInt();
        int valueBytes = log.get("value_bytes").asInt();
        Compression compression = compression(log.get("codec").asText());
        Random random = new Random(42);
        String[] words = words(random);
        byte[] value = new byte[valueBytes];
        ByteBuffer buffer = ByteBuffer.allocate(1 << 20);
        try (FileRecords file = FileRecords.open(new File(log.get("file").asText()))) {
            for (int first = 0; first < records; first += perBatch) {
                buffer.clear();
                MemoryRecordsBuilder builder = MemoryRecords.builder(
                    buffer, RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, first,
                    RecordBatch.NO_TIMESTAMP, 0);
                for (int i = first; i < Math.min(records, first + perBatch); i++) {
                    fill(value, words, random);
                    builder.append(1_700_000_000_000L + i, null, value);
                }
                file.append(builder.build());
            }
        }
    }

    private static String[] words(Random random) {
        String[] words = new String[400];
        for (int i = 0; i < words.length; i++) {
            StringBuilder word = new StringBuilder();
            for (int n = 3 + random.nextInt(8); n > 0; n--) {
                word.append((char) ('a' + random.nextInt(26)));
            }
            words[i] = word.toString();
        }
        return words;
    }

    /** An event as JSON, cut off at the wanted size. */
    private static void fill(byte[] value, String[] words, Random random) {
        StringBuilder event = new StringBuilder(value.length + 64);
        event.append("{\"id\":").append(random.nextInt(1_000_000_000));
        for (int field = 0; event.length() < value.length; field++) {
            event.append(",\"").append(words[field]).append("\":");
            if (random.nextInt(3) == 0) {
                event.append(random.nextInt(100_000));
            } else {
                event.append('"').append(words[random.nextInt(words.length)]).append('"');
            }
        }
        byte[] text = event.toString().getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(text, 0, value, 0, value.length);
    }
}
