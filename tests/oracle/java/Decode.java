package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.internal.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/** {"files": [path...]}: one line per record of the .log files, as Kafka's reader decodes it, CRCs checked. */
public final class Decode {
    private Decode() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode file : request.get("files")) {
                try (FileRecords records = FileRecords.open(new File(file.asText()), false)) {
                    for (FileChannelRecordBatch batch : records.batches()) {
                        batch.ensureValid();
                        for (Record record : batch) {
                            record.ensureValid();
                            write(out, batch, record);
                        }
                    }
                }
            }
        });
    }

    private static void write(JsonGenerator out, FileChannelRecordBatch batch, Record record) throws IOException {
        out.writeStartObject();
        out.writeNumberField("offset", record.offset());
        out.writeNumberField("timestamp", record.timestamp());
        out.writeStringField("timestamp_type", batch.timestampType().name);
        bytes(out, "key", record.hasKey() ? record.key() : null);
        bytes(out, "value", record.hasValue() ? record.value() : null);
        out.writeArrayFieldStart("headers");
        if (batch.magic() >= RecordBatch.MAGIC_VALUE_V2) {
            for (Header header : record.headers()) {
                out.writeStartArray();
                out.writeString(header.key());
                if (header.value() == null) {
                    out.writeNull();
                } else {
                    out.writeBinary(header.value());
                }
                out.writeEndArray();
            }
        }
        out.writeEndArray();
        out.writeNumberField("position", batch.position());
        out.writeNumberField("magic", batch.magic());
        out.writeStringField("codec", batch.compressionType().name);
        out.writeNumberField("base_offset", batch.baseOffset());
        out.writeNumberField("leader_epoch", batch.partitionLeaderEpoch());
        out.writeNumberField("producer_id", batch.producerId());
        out.writeNumberField("producer_epoch", batch.producerEpoch());
        out.writeNumberField("sequence", record.sequence());
        out.writeBooleanField("transactional", batch.isTransactional());
        out.writeBooleanField("control", batch.isControlBatch());
        out.writeEndObject();
    }

    private static void bytes(JsonGenerator out, String name, ByteBuffer value) throws IOException {
        out.writeFieldName(name);
        if (value == null) {
            out.writeNull();
            return;
        }
        byte[] copy = new byte[value.remaining()];
        value.duplicate().get(copy);
        out.writeBinary(copy);
    }
}
