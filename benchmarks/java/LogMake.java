package tidelog.bench;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.nio.ByteBuffer;
import org.apache.kafka.common.record.internal.FileLogInputStream;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.storage.internals.log.UnifiedLog;

/**
 * {"logs": [{"dir", "file", "megabytes", "config"}...]}: partition directories with the batches of a .log file, over and over
 * until they have the size (once, where that is 0), closed cleanly. The batches get the offsets that come next, outside of
 * their checksum. Prints the log end of each.
 */
public final class LogMake {
    private static final int APPEND_BYTES = 4 << 20;

    private LogMake() {}

    public static void main(String[] args) throws Exception {
        for (JsonNode request : Bench.request().get("logs")) {
            UnifiedLog log = Logs.open(Logs.file(request, "dir"), Logs.config(request), 0);
            make(log, Logs.file(request, "file"), request.get("megabytes").asLong() << 20);
            System.out.println(log.logEndOffset());
            log.close();
        }
        System.exit(0);
    }

    private static void make(UnifiedLog log, File file, long size) throws Exception {
        long offset = 0;
        ByteBuffer buffer = ByteBuffer.allocate(APPEND_BYTES);
        try (FileRecords source = FileRecords.open(file, false)) {
            do {
                for (FileLogInputStream.FileChannelRecordBatch batch : source.batches()) {
                    if (buffer.remaining() < batch.sizeInBytes()) {
                        append(log, buffer);
                    }
                    int start = buffer.position();
                    batch.writeTo(buffer);
                    buffer.putLong(start, offset);
                    offset += batch.lastOffset() - batch.baseOffset() + 1;
                }
                append(log, buffer);
            } while (log.size() < size);
        }
    }

    private static void append(UnifiedLog log, ByteBuffer buffer) {
        buffer.flip();
        log.appendAsFollower(MemoryRecords.readableRecords(buffer), 0);
        buffer.clear();
    }
}
