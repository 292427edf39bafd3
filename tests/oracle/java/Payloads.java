package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * {"payloads": [{"codec", "magic", "data", "compress": true for the other way}]}: one line per payload, as Kafka's streams
 * read (or write) it: {"data": bytes}, or {"error": text} where they refuse it.
 */
public final class Payloads {
    private Payloads() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode payload : request.get("payloads")) {
                Compression codec = RandomRecords.compression(payload.get("codec").asText());
                byte magic = (byte) payload.get("magic").asInt();
                byte[] data = payload.get("data").binaryValue();
                out.writeStartObject();
                try {
                    boolean compress = payload.path("compress").asBoolean(false);
                    out.writeBinaryField(
                        "data", compress ? compress(codec, magic, data) : decompress(codec, magic, data));
                } catch (Throwable refused) { // snappy-java throws an Error
                    out.writeStringField("error", String.valueOf(refused));
                }
                out.writeEndObject();
            }
        });
    }

    private static byte[] decompress(Compression codec, byte magic, byte[] data) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        byte[] piece = new byte[8192];
        try (InputStream in = codec.wrapForInput(ByteBuffer.wrap(data), magic, BufferSupplier.NO_CACHING)) {
            for (int n = in.read(piece); n >= 0; n = in.read(piece)) {
                content.write(piece, 0, n);
            }
        }
        return content.toByteArray();
    }

    private static byte[] compress(Compression codec, byte magic, byte[] data) throws IOException {
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        try (OutputStream stream = codec.wrapForOutput(out, magic)) {
            stream.write(data);
        }
        ByteBuffer buffer = out.buffer();
        buffer.flip();
        byte[] packed = new byte[buffer.remaining()];
        buffer.get(packed);
        return packed;
    }
}
