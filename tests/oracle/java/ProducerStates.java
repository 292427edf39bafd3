package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.BatchMetadata;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogFileUtils;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.apache.kafka.storage.internals.log.ProducerAppendInfo;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Steps on a ProducerStateManager, each done as UnifiedLog does it for an append of one batch.
 *
 * <p>Request: {"expiration_ms": n, "steps": [{"do": "data" | "marker" | "high_watermark" | "log_start" | "expire" |
 * "snapshot" | "corrupt" | "truncate" | "truncate_fully", ...}]}. Answer, a line a step: the exception if Kafka threw,
 * the offsets of a duplicate, the transaction that a marker completed, and the state after it.
 */
final class ProducerStates {
    private final File dir;
    private final ProducerStateManager manager;

    private ProducerStates(File dir, int expirationMs) throws Exception {
        this.dir = dir;
        this.manager = new ProducerStateManager(
                new TopicPartition("t", 0), dir, 900_000, new ProducerStateManagerConfig(expirationMs, true), Time.SYSTEM);
    }

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            Path dir = Files.createTempDirectory("t-0");
            try {
                ProducerStates states = new ProducerStates(dir.toFile(), request.get("expiration_ms").asInt());
                for (JsonNode step : request.get("steps")) {
                    out.writeStartObject();
                    try {
                        states.take(step, out);
                        out.writeNullField("error");
                    } catch (RuntimeException thrown) {
                        out.writeStringField("error", thrown.getClass().getSimpleName());
                    }
                    states.tell(out);
                    out.writeEndObject();
                }
            } finally {
                Utils.delete(dir.toFile());
            }
        });
    }

    private void take(JsonNode step, JsonGenerator out) throws Exception {
        switch (step.get("do").asText()) {
            case "data" -> data(step, out);
            case "marker" -> marker(step, out);
            case "high_watermark" -> manager.onHighWatermarkUpdated(step.get("offset").asLong());
            case "log_start" -> manager.onLogStartOffsetIncremented(step.get("offset").asLong());
            case "expire" -> manager.removeExpiredProducers(step.get("now").asLong());
            case "snapshot" -> manager.takeSnapshot();
            case "corrupt" -> corrupt(LogFileUtils.producerSnapshotFile(dir, step.get("offset").asLong()).toPath());
            case "truncate" -> manager.truncateAndReload(
                    step.get("start").asLong(), step.get("end").asLong(), step.get("now").asLong());
            case "truncate_fully" -> manager.truncateFullyAndStartAt(step.get("offset").asLong());
            default -> throw new IllegalArgumentException("no such step: " + step);
        }
    }

    private void data(JsonNode step, JsonGenerator out) throws Exception {
        AppendOrigin origin = AppendOrigin.valueOf(step.get("origin").asText());
        RecordBatch batch = batch(step);
        if (origin == AppendOrigin.CLIENT) {
            Optional<ProducerStateEntry> entry = manager.lastEntry(batch.producerId());
            if (entry.isPresent()) {
                Method find = ProducerStateEntry.class.getDeclaredMethod("findDuplicateBatch", RecordBatch.class);
                find.setAccessible(true);
                Optional<?> found = (Optional<?>) find.invoke(entry.get(), batch);
                if (found.isPresent()) {
                    BatchMetadata duplicate = (BatchMetadata) found.get();
                    out.writeArrayFieldStart("duplicate");
                    out.writeNumber(duplicate.firstOffset());
                    out.writeNumber(duplicate.lastOffset());
                    out.writeNumber(duplicate.timestamp());
                    out.writeEndArray();
                    return;
                }
            }
        }
        ProducerAppendInfo info = manager.prepareUpdate(batch.producerId(), origin);
        info.append(batch, Optional.empty());
        manager.update(info);
        manager.updateMapEndOffset(batch.lastOffset() + 1);
    }

    private static RecordBatch batch(JsonNode step) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 16), RecordBatch.MAGIC_VALUE_V2,
                Compression.NONE, TimestampType.CREATE_TIME, step.get("offset").asLong(), RecordBatch.NO_TIMESTAMP,
                step.get("pid").asLong(), (short) step.get("epoch").asInt(), step.get("seq").asInt(),
                step.get("txn").asBoolean(), 0);
        for (int i = 0; i < step.get("count").asInt(); i++) {
            builder.append(step.get("timestamp").asLong(), null, new byte[0]);
        }
        return builder.build().batches().iterator().next();
    }

    private void marker(JsonNode step, JsonGenerator out) throws Exception {
        ControlRecordType type = step.get("abort").asBoolean() ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        EndTransactionMarker marker = new EndTransactionMarker(type, step.get("coordinator_epoch").asInt());
        long offset = step.get("offset").asLong();
        AppendOrigin origin = AppendOrigin.valueOf(step.get("origin").asText());
        ProducerAppendInfo info = manager.prepareUpdate(step.get("pid").asLong(), origin);
        Optional<CompletedTxn> completed = info.appendEndTxnMarker(marker, (short) step.get("epoch").asInt(), offset,
                step.get("timestamp").asLong(), (short) step.get("version").asInt());
        manager.update(info);
        if (completed.isPresent()) {
            CompletedTxn txn = completed.get();
            out.writeArrayFieldStart("completed");
            out.writeNumber(txn.firstOffset());
            out.writeNumber(txn.lastOffset());
            out.writeBoolean(txn.isAborted());
            out.writeNumber(manager.lastStableOffset(txn));
            out.writeEndArray();
            manager.completeTxn(txn);
        }
        manager.updateMapEndOffset(offset + 1);
    }

    private static void corrupt(Path snapshot) throws Exception {
        byte[] bytes = Files.readAllBytes(snapshot);
        bytes[bytes.length - 1] ^= 1;
        Files.write(snapshot, bytes);
    }

    private void tell(JsonGenerator out) throws Exception {
        out.writeNumberField("map_end", manager.mapEndOffset());
        Optional<LogOffsetMetadata> unstable = manager.firstUnstableOffset();
        OptionalLong undecided = manager.firstUndecidedOffset();
        out.writeNumberField("unstable", unstable.isPresent() ? unstable.get().messageOffset : -1);
        out.writeNumberField("undecided", undecided.orElse(-1));
        out.writeArrayFieldStart("snapshots");
        for (var file : ProducerStateManager.listSnapshotFiles(dir).stream().sorted((a, b) -> Long.compare(a.offset, b.offset)).toList()) {
            out.writeNumber(file.offset);
        }
        out.writeEndArray();
        out.writeObjectFieldStart("batches");
        for (ProducerStateEntry entry : manager.activeProducers().values()) {
            out.writeArrayFieldStart(Long.toString(entry.producerId()));
            for (BatchMetadata batch : entry.batchMetadata()) {
                out.writeNumber(batch.lastOffset());
            }
            out.writeEndArray();
        }
        out.writeEndObject();
        File file = new File(dir, "state");
        Files.deleteIfExists(file.toPath());
        ProducerStateManager.writeSnapshot(file, manager.activeProducers(), false);
        out.writeBinaryField("state", Files.readAllBytes(file.toPath()));
        Files.delete(file.toPath());
    }
}
