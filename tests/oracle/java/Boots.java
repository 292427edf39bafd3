package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Field;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import kafka.server.BrokerServer;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.common.utils.Time;

/**
 * Starts a broker on each of many roots, one after the other in this process, and stops it.
 *
 * <p>Request: {"brokers": [{"name": text, "properties": {key: value}}], "limit_s": number}. Answer: {"name", "started",
 * "why"} for each. A broker that ends itself (Kafka halts its process when no log directory is left), or that leaves a
 * disk out, has not started.
 */
public final class Boots {
    /** What a broker that would have ended the process throws instead. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended(int status, String message) {
            super("ended with status " + status + (message == null ? "" : ": " + message));
        }
    }

    /** What happens to each broker, by the group of its threads: one that has failed may end itself late. */
    private static final Map<ThreadGroup, BlockingQueue<String>> EVENTS = new ConcurrentHashMap<>();

    private Boots() {}

    public static void main(String[] args) throws Exception {
        Program.main(
                (request, out) -> {
                    try {
                        for (JsonNode one : request.get("brokers")) {
                            tell(one, Program.number(request, "limit_s", 60), out);
                        }
                    } finally {
                        Exit.resetExitProcedure();
                        Exit.resetHaltProcedure();
                    }
                });
    }

    private static void tell(JsonNode one, long limitSeconds, JsonGenerator out) throws Exception {
        Properties properties = new Properties();
        one.get("properties").fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        String fault = boot(properties, limitSeconds);
        out.writeStartObject();
        out.writeStringField("name", one.get("name").asText());
        out.writeBooleanField("started", fault == null);
        out.writeStringField("why", fault == null ? "" : fault);
        out.writeEndObject();
    }

    /** Starts and stops a broker; why it did not start, null if it did. */
    private static String boot(Properties properties, long limitSeconds) throws Exception {
        BlockingQueue<String> events = new ArrayBlockingQueue<>(100);
        Exit.setExitProcedure(Boots::end);
        Exit.setHaltProcedure(Boots::end);
        KafkaRaftServer[] made = new KafkaRaftServer[1];
        ThreadGroup group = new ThreadGroup("broker");
        EVENTS.put(group, events);
        Thread starting =
                new Thread(
                        group,
                        () -> {
                            try {
                                made[0] = new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
                                made[0].startup();
                                events.offer("");
                            } catch (Throwable thrown) {
                                events.offer(String.valueOf(thrown));
                            }
                        },
                        "boot");
        starting.setDaemon(true);
        starting.start();
        String said = events.poll(limitSeconds, TimeUnit.SECONDS);
        if (said != null && said.isEmpty()) {
            String later = events.poll(300, TimeUnit.MILLISECONDS); // a disk may fail just after the start
            said = later == null ? offline(made[0]) : later;
        }
        if (made[0] != null) {
            Thread stopping = new Thread(() -> stop(made[0]), "stop");
            stopping.setDaemon(true);
            stopping.start();
            stopping.join(said != null && said.isEmpty() ? 30_000 : 300);
        }
        return said == null ? "it was not up in time" : said.isEmpty() ? null : said;
    }

    /** Says that a disk is offline; nothing if all of them are in use. */
    private static String offline(KafkaRaftServer server) throws Exception {
        Field field = KafkaRaftServer.class.getDeclaredField("broker");
        field.setAccessible(true);
        BrokerServer broker = (BrokerServer) ((scala.Option<?>) field.get(server)).get();
        int live = broker.logManager().liveLogDirs().size();
        int all = broker.config().logDirs().size();
        return live < all ? (all - live) + " disks are offline" : "";
    }

    private static void end(int status, String message) {
        Ended ended = new Ended(status, message);
        ThreadGroup group = Thread.currentThread().getThreadGroup();
        while (group != null && !EVENTS.containsKey(group)) {
            group = group.getParent();
        }
        if (group != null) {
            EVENTS.get(group).offer(ended.getMessage());
        }
        throw ended;
    }

    private static void stop(KafkaRaftServer server) {
        try {
            server.shutdown();
            server.awaitShutdown();
        } catch (Throwable thrown) {
            // It did not start, and what there is of it is left.
        }
    }
}
