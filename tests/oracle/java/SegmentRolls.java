package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.LazyIndex;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.RollParams;
import org.apache.kafka.storage.internals.log.TransactionIndex;

/**
 * Asks Kafka's segment whether it would roll.
 *
 * <p>Request: {"cases": [...]}, each with the segment's base, created_ms, index_bytes, jitter_ms and the timestamp of
 * its only batch (absent: it is empty), and the append's max_segment_ms, max_segment_bytes, max_timestamp, last_offset,
 * size and now_ms. Answer, a line a case: {"size": bytes in the segment, "roll": whether it would}.
 */
final class SegmentRolls {
    private SegmentRolls() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode facts : request.get("cases")) {
                Path dir = Files.createTempDirectory("t-0");
                try (LogSegment segment = segment(dir.toFile(), facts)) {
                    out.writeStartObject();
                    out.writeNumberField("size", segment.size());
                    out.writeBooleanField("roll", segment.shouldRoll(new RollParams(
                            facts.get("max_segment_ms").asLong(), facts.get("max_segment_bytes").asInt(),
                            facts.get("max_timestamp").asLong(), facts.get("last_offset").asLong(),
                            facts.get("size").asInt(), facts.get("now_ms").asLong())));
                    out.writeEndObject();
                } finally {
                    Utils.delete(dir.toFile());
                }
            }
        });
    }

    private static LogSegment segment(File dir, JsonNode facts) throws Exception {
        long base = facts.get("base").asLong();
        int indexBytes = facts.get("index_bytes").asInt();
        FileRecords log = FileRecords.open(new File(dir, "log"));
        if (facts.has("timestamp")) {
            log.append(MemoryRecords.withRecords(base, Compression.NONE,
                    new SimpleRecord(facts.get("timestamp").asLong(), null, new byte[8])));
        }
        return new LogSegment(log, LazyIndex.forOffset(new File(dir, "index"), base, indexBytes),
                LazyIndex.forTime(new File(dir, "timeindex"), base, indexBytes),
                new TransactionIndex(base, new File(dir, "txnindex")), base, 4096, facts.get("jitter_ms").asLong(),
                Logs.clock(new ObjectMapper().createObjectNode().set("now_ms", facts.get("created_ms"))));
    }
}
