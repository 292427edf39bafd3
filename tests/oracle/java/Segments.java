package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.File;
import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.TimestampOffset;

/**
 * Does the same to Kafka's own segment as was done to ours, and prints what it answered.
 *
 * <p>Request: cases, each with dir, base, config and steps ([name, argument...]). Each case is answered by one line: an
 * array with an answer per step, an exception by its class name. At its end the segment is closed.
 */
public final class Segments {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final TopicPartition PARTITION = new TopicPartition("t", 0);

    private final File dir;
    private final long base;
    private final LogConfig config;
    private final KafkaScheduler scheduler;
    private LogSegment segment;

    private Segments(JsonNode one, KafkaScheduler scheduler) throws Exception {
        this.dir = new File(one.get("dir").asText());
        this.base = one.get("base").asLong();
        this.scheduler = scheduler;
        Map<String, Object> settings = new HashMap<>();
        one.get("config").properties().forEach(e -> settings.put(e.getKey(), e.getValue().asText()));
        this.config = new LogConfig(settings);
        open(one.get("exists").asBoolean());
    }

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            KafkaScheduler scheduler = Logs.scheduler();
            for (JsonNode one : request.get("cases")) {
                Segments kafka = new Segments(one, scheduler);
                ArrayNode answers = MAPPER.createArrayNode();
                for (JsonNode step : one.get("steps")) {
                    try {
                        answers.add(kafka.answer(step));
                    } catch (Exception thrown) {
                        answers.add(thrown.getClass().getSimpleName());
                    }
                }
                kafka.segment.close();
                out.writeTree(answers);
            }
        });
    }

    private void open(boolean exists) throws Exception {
        segment = LogSegment.open(dir, base, config, Time.SYSTEM, exists, 0, false, "");
        segment.resizeIndexes(config.maxIndexSize);
    }

    private static JsonNode numbers(long... values) {
        ArrayNode node = MAPPER.createArrayNode();
        for (long value : values) {
            node.add(value);
        }
        return node;
    }

    private JsonNode state() throws Exception {
        TimestampOffset max = segment.readMaxTimestampAndOffsetSoFar();
        return numbers(
            segment.size(),
            segment.offsetIndex().entries(),
            segment.timeIndex().entries(),
            max.timestamp(),
            max.offset(),
            segment.offsetIndex().isFull() || segment.timeIndex().isFull() ? 1 : 0);
    }

    private JsonNode answer(JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "append" -> {
                byte[] data = step.get(2).binaryValue();
                segment.append(step.get(1).asLong(), MemoryRecords.readableRecords(ByteBuffer.wrap(data)));
                return state();
            }
            case "truncate" -> {
                long removed = segment.truncateTo(step.get(1).asLong());
                return MAPPER.createArrayNode().add(removed).addAll((ArrayNode) state());
            }
            case "roll_and_truncate" -> {
                segment.onBecomeInactiveSegment();
                long removed = segment.truncateTo(step.get(1).asLong());
                return MAPPER.createArrayNode().add(removed).addAll((ArrayNode) state());
            }
            case "recover" -> {
                long removed = recover();
                segment.resizeIndexes(config.maxIndexSize);
                return MAPPER.createArrayNode().add(removed).addAll((ArrayNode) state());
            }
            case "reopen" -> {
                segment.close();
                open(true);
                return state();
            }
            case "damage" -> {
                try (RandomAccessFile file = new RandomAccessFile(segment.log().file(), "rw")) {
                    file.seek(step.get(1).asLong());
                    file.write(step.get(2).asInt());
                }
                return numbers();
            }
            case "read" -> {
                Optional<Long> limit = step.get(3).isNull() ? Optional.of((long) segment.size())
                    : Optional.of(step.get(3).asLong());
                FetchDataInfo found =
                    segment.read(step.get(1).asLong(), step.get(2).asInt(), limit, step.get(4).asInt() == 1);
                return found == null ? numbers() : numbers(
                    found.fetchOffsetMetadata.messageOffset,
                    found.fetchOffsetMetadata.relativePositionInSegment,
                    found.records.sizeInBytes(),
                    found.firstEntryIncomplete ? 1 : 0);
            }
            case "translate" -> {
                FileRecords.LogOffsetPosition found = segment.translateOffset(step.get(1).asLong());
                return found == null ? numbers() : numbers(found.offset, found.position, found.size);
            }
            case "time" -> {
                Optional<FileRecords.TimestampAndOffset> found =
                    segment.findOffsetByTimestamp(step.get(1).asLong(), step.get(2).asLong());
                return found.isEmpty() ? numbers() : numbers(found.get().timestamp, found.get().offset);
            }
            case "upper" -> {
                OptionalLong found = segment.fetchUpperBoundOffset(
                    new OffsetPosition(0, step.get(1).asInt()), step.get(2).asInt());
                return found.isEmpty() ? numbers() : numbers(found.getAsLong());
            }
            case "facts" -> {
                return numbers(
                    segment.readNextOffset(),
                    segment.getFirstBatchTimestamp() == Long.MAX_VALUE ? -1 : segment.getFirstBatchTimestamp(),
                    segment.largestRecordTimestamp().orElse(-1),
                    segment.hasOverflow() ? 1 : 0);
            }
            default -> throw new UnsupportedOperationException(step.toString());
        }
    }

    private long recover() throws Exception {
        ProducerStateManager producers = new ProducerStateManager(
            PARTITION, dir, 900_000, new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            PARTITION, new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(dir), new LogDirFailureChannel(1)), scheduler);
        return segment.recover(producers, epochs);
    }
}
