package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Fills a partition directory with v2 batches through Kafka's log, all from a seed.
 *
 * <p>Request: dir, config, now_ms as for Lookups (now_ms is needed: the same request gives the same bytes); seed;
 * batches (how many appends); max_records (a batch); codecs; kinds, any of plain, idempotent, transactional (with
 * commit and abort markers; one may stay open), horizon (batches with a delete horizon) and kraft (control batches of
 * every KRaft type). Leader epochs grow and the log rolls now and then. One line: log_end_offset, segments, leader_epoch.
 */
public final class WriteLog {
    private static final List<String> ALL_CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    private static final List<String> USUAL_KINDS = List.of("plain", "idempotent", "transactional");

    private final UnifiedLog log;
    private final RandomRecords random;
    private final List<String> codecs;
    private final List<String> kinds;
    private final int maxRecords;
    private final Producer[] idempotent = {new Producer(1000), new Producer(1001)};
    private final Producer[] transactional = {new Producer(2000), new Producer(2001), new Producer(2002)};
    private int leaderEpoch = 0;

    private static final class Producer {
        final long id;
        short epoch = 0;
        int sequence = 0;
        boolean open = false;

        Producer(long id) {
            this.id = id;
        }
    }

    private WriteLog(JsonNode request) throws Exception {
        this.log = Logs.open(request);
        this.random = new RandomRecords(Program.number(request, "seed", 1), request.get("now_ms").asLong() - 3_600_000);
        this.codecs = names(request, "codecs", ALL_CODECS);
        this.kinds = names(request, "kinds", USUAL_KINDS);
        this.maxRecords = (int) Program.number(request, "max_records", 20);
    }

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            WriteLog writer = new WriteLog(request);
            long batches = Program.number(request, "batches", 200);
            for (long i = 0; i < batches; i++) {
                writer.step();
            }
            writer.log.flush(true);
            out.writeStartObject();
            out.writeNumberField("log_end_offset", writer.log.logEndOffset());
            out.writeNumberField("segments", writer.log.numberOfSegments());
            out.writeNumberField("leader_epoch", writer.leaderEpoch);
            out.writeEndObject();
            writer.log.close();
        });
    }

    private void step() throws Exception {
        if (random.oneIn(40)) {
            leaderEpoch += 1 + random.random.nextInt(2);
        }
        if (random.oneIn(50)) {
            log.roll();
        }
        switch (kinds.get(random.random.nextInt(kinds.size()))) {
            case "plain" -> log.appendAsLeader(batch(null, false), leaderEpoch);
            case "idempotent" -> {
                Producer producer = pick(idempotent);
                if (random.oneIn(20)) {
                    producer.epoch++;
                    producer.sequence = 0;
                }
                log.appendAsLeader(batch(producer, false), leaderEpoch);
            }
            case "transactional" -> transaction(pick(transactional));
            case "horizon" -> log.appendAsFollower(batch(null, false, log.logEndOffset(), random.timestamp()), leaderEpoch);
            case "kraft" -> log.appendAsFollower(kraft(), leaderEpoch);
            default -> throw new IllegalArgumentException("kinds must be known ones: " + kinds);
        }
    }

    private void transaction(Producer producer) throws Exception {
        if (producer.open && random.oneIn(3)) {
            ControlRecordType type = random.oneIn(2) ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
            log.appendAsLeader(
                MemoryRecords.withEndTransactionMarker(
                    random.timestamp(), producer.id, producer.epoch, new EndTransactionMarker(type, 7)),
                leaderEpoch,
                AppendOrigin.COORDINATOR,
                RequestLocal.noCaching(),
                VerificationGuard.SENTINEL,
                TransactionVersion.TV_1.featureLevel());
            producer.open = false;
            return;
        }
        log.appendAsLeader(batch(producer, true), leaderEpoch);
        producer.open = true;
    }

    /** For appendAsLeader, which wants base offset 0 and assigns its own. */
    private MemoryRecords batch(Producer producer, boolean inTransaction) {
        return batch(producer, inTransaction, 0, RecordBatch.NO_TIMESTAMP);
    }

    private MemoryRecords batch(Producer producer, boolean inTransaction, long baseOffset, long deleteHorizonMs) {
        Compression compression = RandomRecords.compression(codecs.get(random.random.nextInt(codecs.size())));
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(1 << 16),
            RecordBatch.MAGIC_VALUE_V2,
            compression,
            TimestampType.CREATE_TIME,
            baseOffset,
            RecordBatch.NO_TIMESTAMP,
            producer == null ? RecordBatch.NO_PRODUCER_ID : producer.id,
            producer == null ? RecordBatch.NO_PRODUCER_EPOCH : producer.epoch,
            producer == null ? RecordBatch.NO_SEQUENCE : producer.sequence,
            inTransaction,
            false,
            leaderEpoch,
            Integer.MAX_VALUE,
            deleteHorizonMs);
        int count = 1 + random.random.nextInt(maxRecords);
        for (int i = 0; i < count; i++) {
            builder.append(random.timestamp(), random.key(), random.value(), random.headers());
        }
        if (producer != null) {
            producer.sequence += count;
        }
        return builder.build();
    }

    private MemoryRecords kraft() {
        long offset = log.logEndOffset();
        long now = random.timestamp();
        ByteBuffer buffer = ByteBuffer.allocate(1024);
        int voter = 1 + random.random.nextInt(9);
        return switch (random.random.nextInt(5)) {
            case 0 -> MemoryRecords.withLeaderChangeMessage(offset, now, leaderEpoch, buffer,
                new LeaderChangeMessage()
                    .setLeaderId(voter)
                    .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(voter)))
                    .setGrantingVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(voter))));
            case 1 -> MemoryRecords.withSnapshotHeaderRecord(offset, now, leaderEpoch, buffer,
                new SnapshotHeaderRecord().setLastContainedLogTimestamp(now));
            case 2 -> MemoryRecords.withSnapshotFooterRecord(offset, now, leaderEpoch, buffer, new SnapshotFooterRecord());
            case 3 -> MemoryRecords.withKRaftVersionRecord(offset, now, leaderEpoch, buffer,
                new KRaftVersionRecord().setKRaftVersion((short) 1));
            default -> MemoryRecords.withVotersRecord(offset, now, leaderEpoch, buffer,
                new VotersRecord().setVoters(List.of(voter(voter))));
        };
    }

    private static VotersRecord.Voter voter(int id) {
        VotersRecord.EndpointCollection endpoints = new VotersRecord.EndpointCollection();
        endpoints.add(new VotersRecord.Endpoint().setName("CONTROLLER").setHost("localhost").setPort(9093));
        return new VotersRecord.Voter()
            .setVoterId(id)
            .setVoterDirectoryId(new Uuid(id, id))
            .setEndpoints(endpoints)
            .setKRaftVersionFeature(
                new VotersRecord.KRaftVersionFeature().setMinSupportedVersion((short) 0).setMaxSupportedVersion((short) 1));
    }

    private Producer pick(Producer[] producers) {
        return producers[random.random.nextInt(producers.length)];
    }

    private static List<String> names(JsonNode request, String key, List<String> otherwise) {
        if (!request.has(key)) {
            return otherwise;
        }
        List<String> names = new ArrayList<>();
        request.get(key).forEach(name -> names.add(name.asText()));
        return names;
    }
}
