package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"cases": [{"dir", "config", "log_start", "high_watermark", "now_ms"}]}: opens each log as closed cleanly, runs
 * Kafka's retention once and closes it. One line each: {"log_start_offset", "base_offsets": [...], "deleted"}.
 */
public final class Retention {
    private Retention() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode each : request.get("cases")) {
                UnifiedLog log = Logs.open(each);
                log.updateHighWatermark(each.get("high_watermark").asLong());
                int deleted = log.deleteOldSegments();
                out.writeStartObject();
                out.writeNumberField("log_start_offset", log.logStartOffset());
                out.writeNumberField("deleted", deleted);
                out.writeArrayFieldStart("base_offsets");
                for (LogSegment segment : log.logSegments()) {
                    out.writeNumber(segment.baseOffset());
                }
                out.writeEndArray();
                out.writeEndObject();
                log.close();
            }
        });
    }
}
