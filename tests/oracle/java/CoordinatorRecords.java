package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.transaction.generated.TransactionLogValue;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;

/**
 * {"groups": [[key, value]], "transactions": [value]}, in base64: each read and written again by Kafka's own classes, one
 * line with {"key", "value"} each. {"topics": [{"name", "id", "partitions"}]}: one line with {"hash"}, the hash that a
 * consumer group keeps of them.
 */
public final class CoordinatorRecords {
    private CoordinatorRecords() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            CoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
            for (JsonNode pair : request.path("groups")) {
                CoordinatorRecord record = serde.deserialize(bytes(pair.get(0)), bytes(pair.get(1)));
                out.writeStartObject();
                out.writeStringField("key", text(serde.serializeKey(record)));
                byte[] value = serde.serializeValue(record);
                out.writeStringField("value", value == null ? null : text(value));
                out.writeEndObject();
            }
            for (JsonNode value : request.path("transactions")) {
                ByteBuffer buffer = bytes(value);
                short version = buffer.getShort();
                TransactionLogValue read = new TransactionLogValue(new ByteBufferAccessor(buffer), version);
                out.writeStartObject();
                out.writeStringField("value", text(MessageUtil.toVersionPrefixedBytes(version, read)));
                out.writeEndObject();
            }
            if (request.hasNonNull("topics")) {
                out.writeStartObject();
                out.writeNumberField("hash", hash(request.get("topics")));
                out.writeEndObject();
            }
        });
    }

    private static long hash(JsonNode topics) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        List<String> names = new ArrayList<>();
        for (JsonNode topic : topics) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            names.add(topic.get("name").asText());
            delta.replay(new TopicRecord().setName(topic.get("name").asText()).setTopicId(id));
            for (int number = 0; number < topic.get("partitions").asInt(); number++) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(number)
                    .setReplicas(List.of(1)).setIsr(List.of(1)).setLeader(1));
            }
        }
        KRaftCoordinatorMetadataImage image =
            new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
        Map<String, Long> hashes = new HashMap<>();
        for (String name : names) {
            hashes.put(name, Utils.computeTopicHash(name, image));
        }
        return Utils.computeGroupHash(hashes);
    }

    private static ByteBuffer bytes(JsonNode text) {
        return text.isNull() ? null : ByteBuffer.wrap(Base64.getDecoder().decode(text.asText()));
    }

    private static String text(byte[] data) {
        return Base64.getEncoder().encodeToString(data);
    }
}
