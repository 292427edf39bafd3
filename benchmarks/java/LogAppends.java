package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"task", "file", "dir", "config", ...}: appends to a new log in "dir", as a leader, one batch a call: Kafka takes no more from
 * a client. Making the log, with one record of the time "first_timestamp" in it, and deleting it are not timed.
 *
 * <p>ready: the batches of a .log file, which wait in memory. encode (with "per_batch"): its records, which wait in memory,
 * into batches, and those. turns (with "logs"): the batches of a .log file to so many logs in turn, each a partition of one
 * replica, whose high watermark follows.
 */
public final class LogAppends {
    private static final int BATCH_BYTES = 1 << 20;
    private static final int LENGTH_AT = 8;
    private static final int OVERHEAD = 12;

    private final File directory;
    private final LogConfig config;
    private final long firstTimestamp;

    private LogAppends(JsonNode request) {
        directory = Logs.file(request, "dir");
        config = Logs.config(request);
        firstTimestamp = request.get("first_timestamp").asLong();
    }

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        LogAppends target = new LogAppends(request);
        File file = Logs.file(request, "file");
        switch (request.get("task").asText()) {
            case "ready" -> {
                List<ByteBuffer> batches = split(ByteBuffer.wrap(Files.readAllBytes(file.toPath())));
                Bench.measure(
                    request,
                    () -> {
                        batches.forEach(batch -> batch.putLong(0, 0)); // where the last append stamped its offset
                        return target.create();
                    },
                    fresh -> ready(fresh.log, batches));
            }
            case "encode" -> {
                List<SimpleRecord> records = Records.load(FileRecords.open(file, false));
                int perBatch = request.get("per_batch").asInt();
                ByteBuffer buffer = ByteBuffer.allocate(BATCH_BYTES);
                Bench.measure(request, target::create, fresh -> encode(fresh.log, records, perBatch, buffer));
            }
            case "turns" -> {
                List<ByteBuffer> batches = split(ByteBuffer.wrap(Files.readAllBytes(file.toPath())));
                UnifiedLog[] logs = target.createMany(request.get("logs").asInt());
                Bench.measure(request, () -> {
                    batches.forEach(batch -> batch.putLong(0, 0));
                    return () -> {};
                }, nothing -> turns(logs, batches));
                for (UnifiedLog log : logs) {
                    log.delete();
                }
            }
            default -> throw new IllegalArgumentException("no such task: " + request.get("task"));
        }
        System.exit(0);
    }

    /** A new log, deleted without being flushed. */
    private record Fresh(UnifiedLog log) implements AutoCloseable {
        @Override
        public void close() {
            log.delete();
        }
    }

    private Fresh create() throws Exception {
        return new Fresh(create(directory));
    }

    private UnifiedLog[] createMany(int count) throws Exception {
        UnifiedLog[] logs = new UnifiedLog[count];
        for (int number = 0; number < count; number++) {
            logs[number] = create(new File(directory, "turns-" + number));
        }
        return logs;
    }

    private UnifiedLog create(File directory) throws Exception {
        UnifiedLog log = Logs.open(directory, config, 0);
        SimpleRecord first = new SimpleRecord(firstTimestamp, null, new byte[0]);
        log.appendAsLeader(MemoryRecords.withRecords(Compression.NONE, first), 0); // syncs the file of leader epochs
        return log;
    }

    private static List<ByteBuffer> split(ByteBuffer data) {
        List<ByteBuffer> batches = new ArrayList<>();
        for (int at = 0; at < data.limit(); ) {
            int size = OVERHEAD + data.getInt(at + LENGTH_AT);
            batches.add(data.slice(at, size));
            at += size;
        }
        return batches;
    }

    private static long ready(UnifiedLog log, List<ByteBuffer> batches) throws Exception {
        for (ByteBuffer batch : batches) {
            log.appendAsLeader(MemoryRecords.readableRecords(batch.duplicate()), 0);
        }
        return log.logEndOffset();
    }

    /** One batch to each log in turn; how many offsets that were. */
    private static long turns(UnifiedLog[] logs, List<ByteBuffer> batches) throws Exception {
        long before = ends(logs);
        int number = 0;
        for (ByteBuffer batch : batches) {
            UnifiedLog log = logs[number];
            log.appendAsLeader(MemoryRecords.readableRecords(batch.duplicate()), 0);
            log.updateHighWatermark(log.logEndOffset());
            number = number + 1 == logs.length ? 0 : number + 1;
        }
        return ends(logs) - before;
    }

    private static long ends(UnifiedLog[] logs) {
        long sum = 0;
        for (UnifiedLog log : logs) {
            sum += log.logEndOffset();
        }
        return sum;
    }

    private static long encode(UnifiedLog log, List<SimpleRecord> records, int perBatch, ByteBuffer buffer)
        throws Exception {
        for (int first = 0; first < records.size(); first += perBatch) {
            buffer.clear();
            MemoryRecordsBuilder builder = MemoryRecords.builder(
                buffer, RecordBatch.MAGIC_VALUE_V2, Compression.NONE, TimestampType.CREATE_TIME, 0);
            for (int i = first; i < Math.min(records.size(), first + perBatch); i++) {
                SimpleRecord record = records.get(i);
                builder.append(record.timestamp(), record.key(), record.value(), record.headers());
            }
            log.appendAsLeader(builder.build(), 0);
        }
        return log.logEndOffset();
    }
}
