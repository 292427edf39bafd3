package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"dir", "config", "log_end"}: opens a partition directory after an orderly stop, everything below its end being on the disk.
 * Closing it is not timed. The witness is its log end.
 */
public final class LogOpens {
    private LogOpens() {}

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        File directory = Logs.file(request, "dir");
        LogConfig config = Logs.config(request);
        long logEnd = request.get("log_end").asLong();
        Bench.measure(request, Opened::new, opened -> {
            UnifiedLog log = Logs.open(directory, config, logEnd);
            opened.logs.add(log);
            return log.logEndOffset();
        });
        System.exit(0);
    }

    /** What a repetition opened. */
    private static final class Opened implements AutoCloseable {
        final List<UnifiedLog> logs = new ArrayList<>();

        @Override
        public void close() {
            logs.forEach(UnifiedLog::close);
        }
    }
}
