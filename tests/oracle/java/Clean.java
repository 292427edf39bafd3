package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * {"cases": [{"dir", "config", "log_start", "now_ms", "clean_at_ms", "first_dirty", "map_bytes", "load_factor", "rounds",
 * "copy_to"}]}:
 * opens each log as closed cleanly, takes all of it as replicated, rolls it, cleans it with Kafka's Cleaner from
 * first_dirty (default: the log start) up to the last stable offset, in as many rounds as it takes (at most "rounds", if
 * given), closes it, and copies the directory to copy_to, if given. One line each: {"upper_bound", "end_offsets": [per round], "segments", "size", "invalid"}.
 */
public final class Clean {
    private Clean() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode each : request.get("cases")) {
                UnifiedLog log = Logs.open(each);
                log.updateHighWatermark(log.logEndOffset());
                log.roll();
                long until = Math.min(log.lastStableOffset(), log.activeSegment().baseOffset());
                Cleaner cleaner = new Cleaner(
                    0,
                    new SkimpyOffsetMap((int) Program.number(each, "map_bytes", 16 << 20)),
                    512 * 1024,
                    4 << 20,
                    each.hasNonNull("load_factor") ? each.get("load_factor").asDouble() : 0.9,
                    new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", Time.SYSTEM),
                    Time.SYSTEM,
                    partition -> { });
                long dirty = Program.number(each, "first_dirty", log.logStartOffset());
                long rounds = Program.number(each, "rounds", Long.MAX_VALUE);
                long bound = new LogToClean(log, dirty, until, false).firstUncleanableOffset();
                long invalid = 0;
                out.writeStartObject();
                out.writeNumberField("upper_bound", bound);
                out.writeArrayFieldStart("end_offsets");
                while (dirty < bound && rounds-- > 0) {
                    var done = cleaner.doClean(new LogToClean(log, dirty, until, false), each.get("clean_at_ms").asLong());
                    dirty = done.getKey();
                    CleanerStats stats = done.getValue();
                    invalid += stats.invalidMessagesRead();
                    out.writeNumber(dirty);
                }
                out.writeEndArray();
                out.writeNumberField("segments", log.numberOfSegments());
                out.writeNumberField("size", log.size());
                out.writeNumberField("invalid", invalid);
                out.writeEndObject();
                log.close();
                awaitDeletions(new File(each.get("dir").asText()), log.config().fileDeleteDelayMs);
                if (each.hasNonNull("copy_to")) {
                    copy(new File(each.get("dir").asText()), Path.of(each.get("copy_to").asText()));
                }
            }
        });
    }

    /** Until files that are deleted without delay are gone: a log that is opened meanwhile stumbles over them. */
    private static void awaitDeletions(File directory, long delayMs) throws InterruptedException {
        for (int tries = 0; delayMs == 0 && tries < 1000; tries++) {
            if (directory.listFiles((parent, name) -> name.endsWith(".deleted")).length == 0) {
                return;
            }
            Thread.sleep(10);
        }
    }

    /** All files but those that are being deleted. */
    private static void copy(File directory, Path target) throws IOException {
        Files.createDirectories(target);
        for (File file : directory.listFiles((parent, name) -> !name.endsWith(".deleted"))) {
            Files.copy(file.toPath(), target.resolve(file.getName()), StandardCopyOption.COPY_ATTRIBUTES);
        }
    }
}
