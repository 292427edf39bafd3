package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.OffsetResultHolder;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * Opens a partition directory as Kafka's log, prints what it answers and closes it. The directory may change.
 *
 * <p>Request: dir; clean (true: trust the files, false: recover from recovery_point on); log_start; recovery_point;
 * config {key: value}; now_ms (a clock that stands still); the questions: offsets, timestamps, committed_from (offsets),
 * epochs; and random (how many offsets and timestamps to make up) with seed. Without committed_from every segment's
 * start below the last stable offset is asked.
 */
public final class Lookups {
    private final UnifiedLog log;
    private final JsonGenerator out;

    private Lookups(UnifiedLog log, JsonGenerator out) {
        this.log = log;
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            UnifiedLog log = Logs.open(request);
            try {
                new Lookups(log, out).answer(request);
            } finally {
                log.close();
            }
        });
    }

    private void answer(JsonNode request) throws Exception {
        log.updateHighWatermark(log.logEndOffset());
        keyOffsets();
        Random random = new Random(Program.number(request, "seed", 1));
        int made = (int) Program.number(request, "random", 0);
        for (long offset : numbers(request, "offsets")) {
            offset(offset);
        }
        for (int i = 0; i < made; i++) {
            offset(log.logStartOffset() + (long) (random.nextDouble() * (log.logEndOffset() - log.logStartOffset())));
        }
        for (long timestamp : numbers(request, "timestamps")) {
            timestamp(timestamp);
        }
        if (made > 0) {
            long[] range = timestampRange();
            for (int i = 0; i < made; i++) {
                timestamp(range[0] - 5000 + (long) (random.nextDouble() * (range[1] - range[0] + 10_000)));
            }
        }
        for (long epoch : numbers(request, "epochs")) {
            epoch((int) epoch);
        }
        for (long from : request.has("committed_from") ? numbers(request, "committed_from") : segmentStarts()) {
            committedFrom(from);
        }
    }

    private void keyOffsets() throws IOException {
        out.writeStartObject();
        out.writeNumberField("log_start_offset", log.logStartOffset());
        out.writeNumberField("log_end_offset", log.logEndOffset());
        out.writeNumberField("segments", log.numberOfSegments());
        out.writeNumberField("size", log.size());
        out.writeEndObject();
        out.writeStartObject();
        out.writeNumberField("last_stable_offset", log.lastStableOffset());
        out.writeEndObject();
    }

    /** Where an offset is: its segment, the index entry at or below it, the batch that holds or follows it. */
    private void offset(long offset) throws IOException {
        LogSegment segment = null;
        for (LogSegment candidate : log.logSegments()) {
            if (candidate.baseOffset() <= offset) {
                segment = candidate;
            }
        }
        out.writeStartObject();
        out.writeNumberField("offset", offset);
        if (segment == null) {
            out.writeNullField("segment");
            out.writeEndObject();
            return;
        }
        OffsetPosition entry = segment.offsetIndex().lookup(offset);
        FileRecords.LogOffsetPosition batch = segment.translateOffset(offset);
        out.writeNumberField("segment", segment.baseOffset());
        out.writeNumberField("index_offset", entry.offset());
        out.writeNumberField("index_position", entry.position());
        if (batch == null) {
            out.writeNullField("batch_offset");
            out.writeNullField("batch_position");
        } else {
            out.writeNumberField("batch_offset", batch.offset);
            out.writeNumberField("batch_position", batch.position);
        }
        out.writeEndObject();
    }

    private void timestamp(long timestamp) throws IOException {
        OffsetResultHolder answer = log.fetchOffsetByTimestamp(timestamp, Optional.empty());
        Optional<FileRecords.TimestampAndOffset> found = answer.timestampAndOffsetOpt();
        out.writeStartObject();
        out.writeNumberField("timestamp", timestamp);
        if (found.isEmpty()) {
            out.writeNullField("found");
        } else {
            out.writeObjectFieldStart("found");
            out.writeNumberField("timestamp", found.get().timestamp);
            out.writeNumberField("offset", found.get().offset);
            out.writeEndObject();
        }
        out.writeEndObject();
    }

    private void epoch(int epoch) throws IOException {
        Optional<OffsetAndEpoch> end = log.endOffsetForEpoch(epoch);
        out.writeStartObject();
        out.writeNumberField("epoch", epoch);
        if (end.isEmpty()) {
            out.writeNullField("end");
        } else {
            out.writeObjectFieldStart("end");
            out.writeNumberField("epoch", end.get().epoch());
            out.writeNumberField("offset", end.get().offset());
            out.writeEndObject();
        }
        out.writeEndObject();
    }

    private void committedFrom(long from) throws Exception {
        FetchDataInfo fetched = log.read(from, Integer.MAX_VALUE, FetchIsolation.TXN_COMMITTED, true);
        out.writeStartObject();
        out.writeNumberField("committed_from", from);
        out.writeFieldName("aborted");
        if (fetched.abortedTransactions.isEmpty()) {
            out.writeNull();
        } else {
            out.writeStartArray();
            for (var transaction : fetched.abortedTransactions.get()) {
                out.writeStartArray();
                out.writeNumber(transaction.producerId());
                out.writeNumber(transaction.firstOffset());
                out.writeEndArray();
            }
            out.writeEndArray();
        }
        out.writeEndObject();
    }

    private List<Long> segmentStarts() {
        List<Long> starts = new ArrayList<>();
        for (LogSegment segment : log.logSegments()) {
            long from = Math.max(log.logStartOffset(), segment.baseOffset());
            if (from < log.lastStableOffset()) {
                starts.add(from);
            }
        }
        return starts;
    }

    private long[] timestampRange() {
        long smallest = Long.MAX_VALUE;
        long largest = Long.MIN_VALUE;
        for (LogSegment segment : log.logSegments()) {
            for (RecordBatch batch : segment.log().batches()) {
                if (batch.isControlBatch()) {
                    continue;
                }
                for (Record record : batch) {
                    smallest = Math.min(smallest, record.timestamp());
                    largest = Math.max(largest, record.timestamp());
                }
            }
        }
        return smallest > largest ? new long[] {0, 0} : new long[] {smallest, largest};
    }

    private static List<Long> numbers(JsonNode request, String key) {
        List<Long> numbers = new ArrayList<>();
        if (request.has(key)) {
            request.get(key).forEach(number -> numbers.add(number.asLong()));
        }
        return numbers;
    }
}
