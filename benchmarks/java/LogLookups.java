package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.util.Optional;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"task", "targets", ...}: questions, one for each number of the file "targets".
 *
 * <p>by-offset (with "dir", "config", "log_end"): the record at an offset. by-timestamp (the same): the offset of the first
 * record at or after a timestamp. index (with "file"): the entry of an offset index. A repetition asks all of them. The
 * witness is the sum of the records' offsets and timestamps, of the offsets, or of the positions.
 */
public final class LogLookups {
    private LogLookups() {}

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        long[] targets = Logs.numbers(request, "targets");
        String task = request.get("task").asText();
        if (task.equals("index")) {
            File file = Logs.file(request, "file");
            try (OffsetIndex index = new OffsetIndex(file, 0, -1, false)) {
                Bench.measure(request, () -> index(index, targets));
            }
        } else {
            long logEnd = request.get("log_end").asLong();
            UnifiedLog log = Logs.open(Logs.file(request, "dir"), Logs.config(request), logEnd);
            switch (task) {
                case "by-offset" -> Bench.measure(request, () -> byOffset(log, targets));
                case "by-timestamp" -> Bench.measure(request, () -> byTimestamp(log, targets));
                default -> throw new IllegalArgumentException("no such task: " + task);
            }
            log.close();
        }
        System.exit(0);
    }

    private static long byOffset(UnifiedLog log, long[] targets) throws Exception {
        long witness = 0;
        for (long offset : targets) {
            for (Record record : log.read(offset, 1, FetchIsolation.LOG_END, true).records.records()) {
                if (record.offset() >= offset) {
                    witness += record.offset() + record.timestamp() + record.valueSize();
                    break;
                }
            }
        }
        return witness;
    }

    private static long byTimestamp(UnifiedLog log, long[] targets) {
        long witness = 0;
        for (long timestamp : targets) {
            witness += log.fetchOffsetByTimestamp(timestamp, Optional.empty()).timestampAndOffsetOpt().get().offset;
        }
        return witness;
    }

    private static long index(OffsetIndex index, long[] targets) {
        long witness = 0;
        for (long offset : targets) {
            witness += index.lookup(offset).position();
        }
        return witness;
    }
}
