package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * {"task", "file", "warmup_s", "measure_s"}: Kafka's record classes on a .log file.
 *
 * <p>decode: every record of every batch, CRCs checked. decode-streaming: the same as consumers and the cleaner do it, record
 * by record out of reused buffers. scan: every batch, CRCs checked. decode-opening, scan-opening: opening the file is
 * timed too. encode (with "codec" and "per_batch"): the file's records, which wait in memory, into batches.
 */
public final class Records {
    private Records() {}

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        File file = new File(request.get("file").asText());
        FileRecords open = FileRecords.open(file, false);
        switch (request.get("task").asText()) {
            case "decode" -> Bench.run(request, () -> decode(open));
            case "decode-opening" -> Bench.run(request, () -> opening(file, Records::decode));
            case "decode-streaming" -> {
                BufferSupplier buffers = BufferSupplier.create();
                Bench.run(request, () -> decodeStreaming(open, buffers));
            }
            case "scan" -> Bench.run(request, () -> scan(open));
            case "scan-opening" -> Bench.run(request, () -> opening(file, Records::scan));
            case "encode" -> {
                List<SimpleRecord> records = load(open);
                Compression compression = MakeLogs.compression(request.get("codec").asText());
                int perBatch = request.get("per_batch").asInt();
                ByteBuffer buffer = ByteBuffer.allocate(4 << 20);
                Bench.run(request, () -> encode(records, compression, perBatch, buffer));
            }
            default -> throw new IllegalArgumentException("no such task: " + request.get("task"));
        }
    }

    private interface Reading {
        long read(FileRecords records);
    }

    private static long opening(File file, Reading reading) throws Exception {
        try (FileRecords records = FileRecords.open(file, false)) {
            return reading.read(records);
        }
    }

    private static long decode(FileRecords records) {
        long witness = 0;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                witness += touch(record);
            }
        }
        return witness;
    }

    private static long decodeStreaming(FileRecords records, BufferSupplier buffers) {
        long witness = 0;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            try (CloseableIterator<Record> iterator = batch.streamingIterator(buffers)) {
                while (iterator.hasNext()) {
                    witness += touch(iterator.next());
                }
            }
        }
        return witness;
    }

    private static long touch(Record record) {
        return record.offset() + record.timestamp() + record.keySize() + record.valueSize() + record.headers().length;
    }

    private static long scan(FileRecords records) {
        long witness = 0;
        for (RecordBatch batch : records.batches()) {
            batch.ensureValid();
            witness += batch.lastOffset();
        }
        return witness;
    }

    private static long encode(List<SimpleRecord> records, Compression compression, int perBatch, ByteBuffer buffer) {
        long witness = 0;
        for (int first = 0; first < records.size(); first += perBatch) {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(
                buffer, RecordBatch.MAGIC_VALUE_V2, compression, TimestampType.CREATE_TIME, first);
            for (int i = first; i < Math.min(records.size(), first + perBatch); i++) {
                SimpleRecord record = records.get(i);
                builder.append(record.timestamp(), record.key(), record.value(), record.headers());
            }
            witness += builder.build().sizeInBytes();
        }
        return witness;
    }

    static List<SimpleRecord> load(FileRecords records) {
        List<SimpleRecord> loaded = new ArrayList<>();
        for (Record record : records.records()) {
            byte[] value = new byte[record.valueSize()];
            record.value().get(value);
            loaded.add(new SimpleRecord(record.timestamp(), null, value));
        }
        return loaded;
    }
}
