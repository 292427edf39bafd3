package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Opens partition directories as Kafka's own log. */
final class Logs {
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final List<KafkaScheduler> SCHEDULERS = new ArrayList<>();

    private Logs() {}

    /** The log in request.dir; see Lookups for the keys. */
    static UnifiedLog open(JsonNode request) throws Exception {
        return UnifiedLog.create(
            new File(request.get("dir").asText()),
            config(request),
            Program.number(request, "log_start", 0),
            Program.number(request, "recovery_point", 0),
            scheduler(),
            new BrokerTopicStats(),
            clock(request),
            60_000,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false),
            600_000,
            new LogDirFailureChannel(4),
            !request.has("clean") || request.get("clean").asBoolean(),
            Optional.empty());
    }

    /** A scheduler that runs until the program ends. */
    static KafkaScheduler scheduler() {
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        SCHEDULERS.add(scheduler);
        return scheduler;
    }

    /** Ends what a program has left running. What waits is not done, as if the process had ended. */
    static void shutDownSchedulers() throws InterruptedException {
        for (KafkaScheduler scheduler : SCHEDULERS) {
            scheduler.shutdown();
        }
        SCHEDULERS.clear();
    }

    static LogConfig config(JsonNode request) {
        Map<String, Object> settings = new HashMap<>();
        if (request.has("config")) {
            request.get("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        }
        return new LogConfig(settings);
    }

    /** The system's clock, or one that stands at request.now_ms so that nothing depends on the day of the run. */
    static Time clock(JsonNode request) {
        return request.hasNonNull("now_ms") ? new StandingClock(request.get("now_ms").asLong()) : Time.SYSTEM;
    }

    private record StandingClock(long milliseconds) implements Time {
        @Override
        public long nanoseconds() {
            return milliseconds * 1_000_000;
        }

        @Override
        public void sleep(long ms) {}

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException("this clock stands still");
        }
    }
}
