package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.util.BatchFileReader;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * {"files": [path]} or {"bootstrap": root}: the metadata records in snapshot or log files, or in a root's
 * bootstrap.checkpoint as a starting controller takes them. One line each: {"type", "version", "data"}; control records
 * are {"type": "CONTROL"} with their batch's "offset".
 */
public final class ReadMetadata {
    private ReadMetadata() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            if (request.hasNonNull("bootstrap")) {
                for (ApiMessageAndVersion record : new BootstrapDirectory(request.get("bootstrap").asText()).read().records()) {
                    write(out, record);
                }
                return;
            }
            for (JsonNode file : request.get("files")) {
                try (BatchFileReader reader = new BatchFileReader.Builder().setPath(file.asText()).build()) {
                    while (reader.hasNext()) {
                        BatchFileReader.BatchAndType batch = reader.next();
                        if (batch.isControl()) {
                            out.writeStartObject();
                            out.writeStringField("type", "CONTROL");
                            out.writeNumberField("offset", batch.batch().baseOffset());
                            out.writeEndObject();
                            continue;
                        }
                        for (ApiMessageAndVersion record : batch.batch().records()) {
                            write(out, record);
                        }
                    }
                }
            }
        });
    }

    private static void write(com.fasterxml.jackson.core.JsonGenerator out, ApiMessageAndVersion record) throws Exception {
        out.writeStartObject();
        out.writeStringField("type", MetadataRecordType.fromId(record.message().apiKey()).name());
        out.writeNumberField("version", record.version());
        out.writeFieldName("data");
        out.writeTree(MetadataJsonConverters.writeJson(record.message(), record.version()));
        out.writeEndObject();
    }
}
