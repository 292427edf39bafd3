package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Partition directories as Kafka's own log, and the other files of a request. */
final class Logs {
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;

    private static final KafkaScheduler SCHEDULER = new KafkaScheduler(1);

    static {
        SCHEDULER.startup();
    }

    private Logs() {}

    /** Opens as after an orderly stop; all is on the disk up to the recovery point. */
    static UnifiedLog open(File directory, LogConfig config, long recoveryPoint) throws Exception {
        return open(directory, config, 0, recoveryPoint, true);
    }

    /** Opens as after an orderly stop or a crash. */
    static UnifiedLog open(File directory, LogConfig config, long logStart, long recoveryPoint, boolean clean)
        throws Exception {
        return UnifiedLog.create(
            directory,
            config,
            logStart,
            recoveryPoint,
            SCHEDULER,
            new BrokerTopicStats(),
            Time.SYSTEM,
            60_000,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false),
            600_000,
            new LogDirFailureChannel(4),
            clean,
            Optional.empty());
    }

    static LogConfig config(JsonNode request) {
        Map<String, Object> settings = new HashMap<>();
        request.get("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        return new LogConfig(settings);
    }

    static File file(JsonNode request, String key) {
        return new File(request.get(key).asText());
    }

    /** The numbers of a file: i64, big-endian. */
    static long[] numbers(JsonNode request, String key) throws Exception {
        LongBuffer stored = ByteBuffer.wrap(Files.readAllBytes(file(request, key).toPath())).asLongBuffer();
        long[] numbers = new long[stored.remaining()];
        stored.get(numbers);
        return numbers;
    }
}
