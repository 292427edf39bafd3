package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

/**
 * {"source", "copy", "log_end", "config", "map_bytes", "clean_at_ms"}: cleans a log with Kafka's Cleaner, from its start to its
 * active segment, one thread. Each repetition works on a copy whose logs are links; making, opening and closing it are not
 * timed. The witness is the size of the log when it is clean.
 */
public final class LogCleans {
    private LogCleans() {}

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        LogConfig config = Logs.config(request);
        Cleaner cleaner = new Cleaner(
            0,
            new SkimpyOffsetMap(request.get("map_bytes").asInt()),
            512 * 1024,
            1 << 20,
            0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner", "bytes", Time.SYSTEM),
            Time.SYSTEM,
            partition -> { });
        Bench.measure(request, () -> new Copy(request, config), copy -> {
            UnifiedLog log = copy.log;
            cleaner.doClean(
                new LogToClean(log, 0, log.activeSegment().baseOffset(), false), request.get("clean_at_ms").asLong());
            return log.size();
        });
        System.exit(0);
    }

    private static final class Copy implements AutoCloseable {
        private final File directory;
        final UnifiedLog log;

        Copy(JsonNode request, LogConfig config) throws Exception {
            directory = Logs.file(request, "copy");
            remove();
            Files.createDirectories(directory.toPath());
            for (File file : Logs.file(request, "source").listFiles()) {
                Path target = directory.toPath().resolve(file.getName());
                if (file.getName().endsWith(".log")) {
                    Files.createLink(target, file.toPath());
                } else {
                    Files.copy(file.toPath(), target);
                }
            }
            log = Logs.open(directory, config, request.get("log_end").asLong());
            log.updateHighWatermark(log.logEndOffset());
        }

        @Override
        public void close() throws IOException {
            log.close();
            remove();
        }

        private void remove() throws IOException {
            File[] files = directory.listFiles();
            if (files != null) {
                for (File file : files) {
                    Files.deleteIfExists(file.toPath());
                }
                Files.deleteIfExists(directory.toPath());
            }
        }
    }
}
