package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"root", "now_ms", "cases": [{"dir", "config", "log_start", "high_watermark", "now_ms"}]}: opens the logs of a root
 * and lets Kafka's cleaner manager choose one after the other until none is worth cleaning. One line each:
 * {"partition", "first_dirty_offset", "first_uncleanable_offset", "clean_bytes", "cleanable_bytes"}.
 */
public final class Choice {
    private Choice() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            ConcurrentHashMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
            for (JsonNode each : request.get("cases")) {
                UnifiedLog log = Logs.open(each);
                log.updateHighWatermark(each.get("high_watermark").asLong());
                logs.put(log.topicPartition(), log);
            }
            LogCleanerManager manager = new LogCleanerManager(
                List.of(new File(request.get("root").asText())), logs, new LogDirFailureChannel(4));
            while (true) {
                Optional<LogToClean> found = manager.grabFilthiestCompactedLog(Logs.clock(request), new PreCleanStats());
                if (found.isEmpty()) {
                    break;
                }
                LogToClean log = found.get();
                out.writeStartObject();
                out.writeStringField("partition", log.topicPartition().toString());
                out.writeNumberField("first_dirty_offset", log.firstDirtyOffset());
                out.writeNumberField("first_uncleanable_offset", log.firstUncleanableOffset());
                out.writeNumberField("clean_bytes", log.cleanBytes());
                out.writeNumberField("cleanable_bytes", log.cleanableBytes());
                out.writeEndObject();
            }
            for (UnifiedLog log : logs.values()) {
                log.close();
            }
        });
    }
}
