package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Reader;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * {"dir": root, "leader_epoch": n, "topic_config": {key: value}}: writes bootstrap.checkpoint, so that a KRaft broker
 * whose root has no metadata log of its own takes every partition directory there as its own. Without it the broker
 * renames them to -stray. The root needs meta.properties, each partition a partition.metadata. One line per partition.
 */
public final class Adopt {
    private final List<ApiMessageAndVersion> records = new ArrayList<>();

    private Adopt() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            Path root = Path.of(request.get("dir").asText());
            Adopt adopt = new Adopt();
            for (String partition : adopt.collect(request, root)) {
                out.writeStartObject();
                out.writeStringField("partition", partition);
                out.writeEndObject();
            }
            new BootstrapDirectory(root.toString())
                .writeBinaryFile(BootstrapMetadata.fromRecords(adopt.records, "tidelog oracle"));
        });
    }

    private Set<String> collect(JsonNode request, Path root) throws Exception {
        Properties meta = new Properties();
        try (Reader reader = Files.newBufferedReader(root.resolve("meta.properties"))) {
            meta.load(reader);
        }
        Uuid directoryId = Uuid.fromString(meta.getProperty("directory.id"));
        int node = Integer.parseInt(meta.getProperty("node.id"));
        MetadataVersion version = MetadataVersion.latestProduction();
        feature("metadata.version", version.featureLevel());
        feature("group.version", (short) 1);
        feature("transaction.version", (short) 2);

        Set<String> partitions = partitionDirectories(root);
        Set<String> topics = new HashSet<>();
        for (String name : partitions) {
            int dash = name.lastIndexOf('-');
            String topic = name.substring(0, dash);
            Uuid topicId = topicId(root.resolve(name));
            if (topics.add(topic)) {
                add(new TopicRecord().setName(topic).setTopicId(topicId), 0);
                request.path("topic_config").properties().forEach(e -> config(topic, e.getKey(), e.getValue().asText()));
            }
            add(
                new PartitionRecord()
                    .setTopicId(topicId)
                    .setPartitionId(Integer.parseInt(name.substring(dash + 1)))
                    .setReplicas(List.of(node))
                    .setIsr(List.of(node))
                    .setRemovingReplicas(List.of())
                    .setAddingReplicas(List.of())
                    .setLeader(node)
                    .setLeaderEpoch((int) Program.number(request, "leader_epoch", 100))
                    .setPartitionEpoch(0)
                    .setDirectories(List.of(directoryId)),
                version.partitionRecordVersion());
        }
        return partitions;
    }

    private static Set<String> partitionDirectories(Path root) throws Exception {
        Set<String> names = new TreeSet<>();
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(root, Files::isDirectory)) {
            for (Path entry : entries) {
                String name = entry.getFileName().toString();
                if (!name.startsWith("__cluster_metadata") && Files.exists(entry.resolve("partition.metadata"))) {
                    names.add(name);
                }
            }
        }
        return names;
    }

    private static Uuid topicId(Path partition) throws Exception {
        for (String line : Files.readAllLines(partition.resolve("partition.metadata"))) {
            if (line.startsWith("topic_id: ")) {
                return Uuid.fromString(line.substring("topic_id: ".length()).strip());
            }
        }
        throw new IllegalStateException(partition + "/partition.metadata names no topic_id");
    }

    private void feature(String name, short level) {
        add(new FeatureLevelRecord().setName(name).setFeatureLevel(level), 0);
    }

    private void config(String topic, String key, String value) {
        add(
            new ConfigRecord()
                .setResourceType(ConfigResource.Type.TOPIC.id())
                .setResourceName(topic)
                .setName(key)
                .setValue(value),
            0);
    }

    private void add(ApiMessage message, int version) {
        records.add(new ApiMessageAndVersion(message, (short) version));
    }
}
