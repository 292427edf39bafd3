package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.OptionalInt;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.EpochEntry;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;

/**
 * Steps on a LeaderEpochFileCache.
 *
 * <p>Request: {"steps": [{"do": "assign" | "from_end" | "from_start" | "clear", ...}], "epochs": n, "offsets": n}.
 * Answer, a line a step: the entries after it, and for each epoch from -1 and each offset what the cache answers.
 */
final class LeaderEpochs {
    private static final long LOG_END = 1_000_000;

    private LeaderEpochs() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            Path dir = Files.createTempDirectory("t-0");
            try {
                LeaderEpochCheckpointFile file = new LeaderEpochCheckpointFile(
                        LeaderEpochCheckpointFile.newFile(dir.toFile()), new LogDirFailureChannel(1));
                LeaderEpochFileCache cache = new LeaderEpochFileCache(new TopicPartition("t", 0), file, Logs.scheduler());
                for (JsonNode step : request.get("steps")) {
                    out.writeStartObject();
                    try {
                        take(cache, step);
                        out.writeNullField("error");
                    } catch (RuntimeException thrown) {
                        out.writeStringField("error", thrown.getClass().getSimpleName());
                    }
                    tell(cache, request.get("epochs").asInt(), request.get("offsets").asInt(), out);
                    out.writeEndObject();
                }
            } finally {
                Logs.shutDownSchedulers(); // a checkpoint that is being written would be in the way
                Utils.delete(dir.toFile());
            }
        });
    }

    private static void take(LeaderEpochFileCache cache, JsonNode step) {
        switch (step.get("do").asText()) {
            case "assign" -> cache.assign(step.get("epoch").asInt(), step.get("offset").asLong());
            case "from_end" -> cache.truncateFromEndAsyncFlush(step.get("offset").asLong());
            case "from_start" -> cache.truncateFromStartAsyncFlush(step.get("offset").asLong());
            case "clear" -> cache.clearAndFlush();
            default -> throw new IllegalArgumentException("no such step: " + step);
        }
    }

    private static void tell(LeaderEpochFileCache cache, int epochs, int offsets, JsonGenerator out) throws Exception {
        entries(out, "entries", cache.epochEntries());
        entries(out, "in_range", cache.epochEntriesInRange(offsets / 4, offsets / 2));
        out.writeArrayFieldStart("end_offsets");
        for (int epoch = -1; epoch < epochs; epoch++) {
            Map.Entry<Integer, Long> answer = cache.endOffsetFor(epoch, LOG_END);
            out.writeStartArray();
            out.writeNumber(answer.getKey());
            out.writeNumber(answer.getValue());
            out.writeEndArray();
        }
        out.writeEndArray();
        out.writeArrayFieldStart("neighbours");
        for (int epoch = -1; epoch < epochs; epoch++) {
            out.writeStartArray();
            number(out, cache.previousEpoch(epoch));
            number(out, cache.nextEpoch(epoch));
            out.writeBoolean(cache.epochEntry(epoch).isPresent());
            out.writeEndArray();
        }
        out.writeEndArray();
        out.writeArrayFieldStart("epochs");
        for (long offset = 0; offset < offsets; offset++) {
            number(out, cache.epochForOffset(offset));
        }
        out.writeEndArray();
    }

    private static void number(JsonGenerator out, OptionalInt number) throws Exception {
        out.writeNumber(number.orElse(-1));
    }

    private static void entries(JsonGenerator out, String name, Iterable<EpochEntry> entries) throws Exception {
        out.writeArrayFieldStart(name);
        for (EpochEntry entry : entries) {
            out.writeStartArray();
            out.writeNumber(entry.epoch());
            out.writeNumber(entry.startOffset());
            out.writeEndArray();
        }
        out.writeEndArray();
    }
}
