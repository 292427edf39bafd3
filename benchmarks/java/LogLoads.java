package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"root", "config", "clean"}: loads every log of a root as Kafka's LogManager does, on one thread: its checkpoints, then one
 * log after the other. Without "clean" it is as after a crash at recovery point 0, and the indexes and snapshots are removed
 * before each repetition. That and closing the logs are not timed. The witness is the sum of the log ends.
 */
public final class LogLoads {
    private static final List<String> REBUILT = List.of(".index", ".timeindex", ".txnindex", ".snapshot");

    private LogLoads() {}

    public static void main(String[] args) throws Exception {
        JsonNode request = Bench.request();
        File root = Logs.file(request, "root");
        LogConfig config = Logs.config(request);
        boolean clean = request.get("clean").asBoolean();
        Bench.measure(request, () -> new Loaded(root, clean), loaded -> {
            Map<TopicPartition, Long> points = checkpoint(root, "recovery-point-offset-checkpoint");
            Map<TopicPartition, Long> starts = checkpoint(root, "log-start-offset-checkpoint");
            long witness = 0;
            for (File directory : partitions(root)) {
                TopicPartition partition = UnifiedLog.parseTopicPartitionName(directory);
                long start = starts.getOrDefault(partition, 0L);
                long point = clean ? points.getOrDefault(partition, start) : start;
                UnifiedLog log = Logs.open(directory, config, start, point, clean);
                loaded.logs.add(log);
                witness += log.logEndOffset();
            }
            return witness;
        });
        System.exit(0);
    }

    private static Map<TopicPartition, Long> checkpoint(File root, String name) throws IOException {
        return new OffsetCheckpointFile(new File(root, name), null).read();
    }

    private static File[] partitions(File root) {
        return root.listFiles(File::isDirectory);
    }

    /** What a repetition loaded. */
    private static final class Loaded implements AutoCloseable {
        final List<UnifiedLog> logs = new ArrayList<>();

        Loaded(File root, boolean clean) throws IOException {
            if (clean) {
                return;
            }
            for (File directory : partitions(root)) {
                for (File file : directory.listFiles((parent, name) -> REBUILT.stream().anyMatch(name::endsWith))) {
                    Files.delete(file.toPath());
                }
            }
        }

        @Override
        public void close() {
            logs.forEach(UnifiedLog::close);
        }
    }
}
