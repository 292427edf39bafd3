package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"cases": [{"dir", "config", "log_start", "recovery_point", "now_ms", "clean"}]}: opens each log, as after a crash unless
 * it is said to be clean, and closes it in order, in place. One line each: {"log_start_offset", "log_end_offset", "last_stable_offset", "base_offsets"}, or
 * {"threw": class name}.
 */
public final class Recover {
    private Recover() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode each : request.get("cases")) {
                com.fasterxml.jackson.databind.node.ObjectNode unclean = each.deepCopy();
                if (!unclean.has("clean")) {
                    unclean.put("clean", false);
                }
                out.writeStartObject();
                try {
                    UnifiedLog log = Logs.open(unclean);
                    log.updateHighWatermark(log.logEndOffset());
                    out.writeNumberField("log_start_offset", log.logStartOffset());
                    out.writeNumberField("log_end_offset", log.logEndOffset());
                    out.writeNumberField("last_stable_offset", log.lastStableOffset());
                    out.writeArrayFieldStart("base_offsets");
                    for (LogSegment segment : log.logSegments()) {
                        out.writeNumber(segment.baseOffset());
                    }
                    out.writeEndArray();
                    log.close();
                } catch (Exception thrown) {
                    out.writeStringField("threw", thrown.getClass().getName());
                }
                out.writeEndObject();
            }
        });
    }
}
