package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.RecordValidationException;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Appends ready bytes to Kafka's log and tells what became of them.
 *
 * <p>Request: dir, config, now_ms as for Lookups; appends: [{"data": base64, "origin": "CLIENT" | "COORDINATOR" |
 * "RAFT_LEADER" | "REPLICATION", "epoch": leader epoch}]. Answer, a line an append: the exception if Kafka refused it,
 * else its offsets and times, and the bytes that were written.
 */
final class Appends {
    private Appends() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            UnifiedLog log = Logs.open(request);
            for (JsonNode append : request.get("appends")) {
                out.writeStartObject();
                try {
                    append(log, append, out);
                } catch (RecordValidationException refused) {
                    out.writeStringField("error", refused.invalidException().getClass().getSimpleName());
                } catch (RuntimeException refused) {
                    out.writeStringField("error", refused.getClass().getSimpleName());
                }
                out.writeEndObject();
            }
            log.close();
        });
    }

    private static void append(UnifiedLog log, JsonNode append, JsonGenerator out) throws Exception {
        MemoryRecords records =
                MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(append.get("data").asText())));
        AppendOrigin origin = AppendOrigin.valueOf(append.get("origin").asText());
        int epoch = append.get("epoch").asInt();
        LogSegment segment = log.activeSegment();
        int before = segment.size();
        LogAppendInfo info = origin == AppendOrigin.REPLICATION
                ? log.appendAsFollower(records, epoch)
                : log.appendAsLeader(records, epoch, origin, RequestLocal.noCaching(), VerificationGuard.SENTINEL, (short) 0);
        if (log.activeSegment() != segment) {
            segment = log.activeSegment();
            before = 0;
        }
        ByteBuffer written = ByteBuffer.allocate(segment.size() - before);
        FileRecords file = segment.log();
        file.readInto(written, before);
        out.writeNullField("error");
        out.writeNumberField("first_offset", info.firstOffset());
        out.writeNumberField("last_offset", info.lastOffset());
        out.writeNumberField("max_timestamp", info.maxTimestamp());
        out.writeNumberField("log_append_time", info.logAppendTime());
        out.writeNumberField("last_leader_epoch", info.lastLeaderEpoch().orElse(-1));
        out.writeStringField("source_codec", info.sourceCompression().name);
        out.writeNumberField("valid_bytes", info.validBytes());
        out.writeBinaryField("written", written.array());
    }
}
