package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * {"configs": [{key: value}]}: what topics inherit from a broker with each of these configurations, one line each:
 * {topic key: value}, or {"refused": message}.
 */
public final class BrokerConfigs {
    private BrokerConfigs() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode config : request.get("configs")) {
                Properties properties = new Properties();
                properties.put("process.roles", "broker,controller");
                properties.put("node.id", "1");
                properties.put("controller.listener.names", "CONTROLLER");
                properties.put("controller.quorum.voters", "1@localhost:9093");
                properties.put("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093");
                config.properties().forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
                out.writeStartObject();
                try {
                    Map<String, Object> values = new TreeMap<>(new KafkaConfig(properties, false).extractLogConfigMap());
                    new LogConfig(values);
                    for (Map.Entry<String, Object> value : values.entrySet()) {
                        Object found = value.getValue();
                        String text = found instanceof java.util.List<?> list
                            ? String.join(",", list.stream().map(String::valueOf).toList()) : String.valueOf(found);
                        out.writeStringField(value.getKey(), text);
                    }
                } catch (RuntimeException refused) {
                    out.writeStringField("refused", String.valueOf(refused.getMessage()));
                }
                out.writeEndObject();
            }
        });
    }
}
