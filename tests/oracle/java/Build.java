package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * {"sets": [...]}: one line {"data": bytes} per set, built by MemoryRecordsBuilder.
 *
 * <p>A set is records, cut into batches as the producer does (hasRoomFor, and at most max_records): {"magic", "codec",
 * "append_time" (if the log stamps), "base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence",
 * "transactional", "delete_horizon", "write_limit", "max_records", "records": [{"timestamp", "key", "value",
 * "headers": [[key, value]...]}]}. Or it is a control batch: {"control": type, "timestamp", ...}.
 */
public final class Build {
    private Build() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode set : request.get("sets")) {
                byte[] data = set.has("control") ? control(set) : batches(set);
                out.writeStartObject();
                out.writeBinaryField("data", data);
                out.writeEndObject();
            }
        });
    }

    private static byte[] batches(JsonNode set) throws IOException {
        long limit = Program.number(set, "write_limit", 1 << 20);
        long maxRecords = Program.number(set, "max_records", Integer.MAX_VALUE);
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        int done = 0;
        MemoryRecordsBuilder builder = null;
        for (JsonNode record : set.get("records")) {
            long timestamp = record.get("timestamp").asLong();
            byte[] key = bytes(record.get("key"));
            byte[] value = bytes(record.get("value"));
            Header[] headers = headers(record);
            if (builder != null
                && (builder.numRecords() >= maxRecords || !builder.hasRoomFor(timestamp, key, value, headers))) {
                all.write(content(builder.build()));
                builder = null;
            }
            if (builder == null) {
                builder = builder(set, done, (int) limit);
            }
            builder.append(timestamp, key, value, headers);
            done++;
        }
        if (builder != null) {
            all.write(content(builder.build()));
        }
        return all.toByteArray();
    }

    private static MemoryRecordsBuilder builder(JsonNode set, int done, int limit) {
        boolean stamped = set.hasNonNull("append_time");
        int sequence = (int) Program.number(set, "base_sequence", -1);
        return new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1024),
            (byte) Program.number(set, "magic", 2),
            set.has("codec") ? RandomRecords.compression(set.get("codec").asText()) : Compression.NONE,
            stamped ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            Program.number(set, "base_offset", 0) + done,
            Program.number(set, "append_time", RecordBatch.NO_TIMESTAMP),
            Program.number(set, "producer_id", -1),
            (short) Program.number(set, "producer_epoch", -1),
            sequence < 0 ? sequence : DefaultRecordBatch.incrementSequence(sequence, done),
            set.path("transactional").asBoolean(false),
            false,
            (int) Program.number(set, "leader_epoch", -1),
            limit,
            Program.number(set, "delete_horizon", RecordBatch.NO_TIMESTAMP));
    }

    private static byte[] control(JsonNode set) {
        long offset = Program.number(set, "base_offset", 0);
        long timestamp = Program.number(set, "timestamp", 0);
        int epoch = (int) Program.number(set, "leader_epoch", 0);
        ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
        ControlRecordType type = ControlRecordType.fromTypeId((short) set.get("control").asInt());
        return content(switch (type) {
            case ABORT, COMMIT -> MemoryRecords.withEndTransactionMarker(
                offset, timestamp, epoch, Program.number(set, "producer_id", 0),
                (short) Program.number(set, "producer_epoch", 0),
                new EndTransactionMarker(type, (int) Program.number(set, "coordinator_epoch", 0)));
            case LEADER_CHANGE -> MemoryRecords.withLeaderChangeMessage(
                offset, timestamp, epoch, buffer,
                new LeaderChangeMessage().setVersion((short) 0).setLeaderId(set.get("leader_id").asInt())
                    .setVoters(voters(set.get("voters"))).setGrantingVoters(voters(set.get("granting_voters"))));
            case SNAPSHOT_HEADER -> MemoryRecords.withSnapshotHeaderRecord(
                offset, timestamp, epoch, buffer,
                new SnapshotHeaderRecord().setVersion((short) 0)
                    .setLastContainedLogTimestamp(set.get("last_timestamp").asLong()));
            case SNAPSHOT_FOOTER -> MemoryRecords.withSnapshotFooterRecord(
                offset, timestamp, epoch, buffer, new SnapshotFooterRecord().setVersion((short) 0));
            case KRAFT_VERSION -> MemoryRecords.withKRaftVersionRecord(
                offset, timestamp, epoch, buffer,
                new KRaftVersionRecord().setVersion((short) 0)
                    .setKRaftVersion((short) set.get("kraft_version").asInt()));
            case KRAFT_VOTERS -> MemoryRecords.withVotersRecord(
                offset, timestamp, epoch, buffer,
                new VotersRecord().setVersion((short) 0).setVoters(kraftVoters(set.get("voters"))));
            default -> throw new IllegalArgumentException("no such control type: " + type);
        });
    }

    private static List<LeaderChangeMessage.Voter> voters(JsonNode ids) {
        List<LeaderChangeMessage.Voter> voters = new ArrayList<>();
        ids.forEach(id -> voters.add(new LeaderChangeMessage.Voter().setVoterId(id.asInt())));
        return voters;
    }

    /** [[id, directory as two longs, [[name, host, port]...], least, most]...]. */
    private static List<VotersRecord.Voter> kraftVoters(JsonNode nodes) {
        List<VotersRecord.Voter> voters = new ArrayList<>();
        for (JsonNode node : nodes) {
            VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
            for (JsonNode endpoint : node.get(3)) {
                endpoints.add(new VotersRecord.Endpoint().setName(endpoint.get(0).asText())
                    .setHost(endpoint.get(1).asText()).setPort(endpoint.get(2).asInt()));
            }
            voters.add(new VotersRecord.Voter().setVoterId(node.get(0).asInt())
                .setVoterDirectoryId(new Uuid(node.get(1).asLong(), node.get(2).asLong()))
                .setEndpoints(endpoints)
                .setKRaftVersionFeature(new VotersRecord.KRaftVersionFeature()
                    .setMinSupportedVersion((short) node.get(4).asInt())
                    .setMaxSupportedVersion((short) node.get(5).asInt())));
        }
        return voters;
    }

    private static Header[] headers(JsonNode record) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : record.path("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        return headers.toArray(RandomRecords.NO_HEADERS);
    }

    private static byte[] bytes(JsonNode node) throws IOException {
        return node == null || node.isNull() ? null : node.binaryValue();
    }

    private static byte[] content(MemoryRecords records) {
        ByteBuffer buffer = records.buffer().duplicate();
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        return content;
    }
}
