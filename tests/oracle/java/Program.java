package tidelog.oracle;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.io.SerializedString;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.util.HashMap;
import java.util.Map;

/**
 * What every oracle program has in common: one JSON request on standard input, JSON lines on standard output.
 *
 * <p>Exit code 0: answered. Exit code 3: Kafka threw; the last line of standard error is
 * {"exception": class name, "message": text}. Logging goes to standard error before that line. In a process that serves
 * many programs (Serve) the code and the report are kept for it instead.
 */
final class Program {
    interface Body {
        void run(JsonNode request, JsonGenerator out) throws Exception;
    }

    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final int KAFKA_THREW = 3;

    private static boolean staying;
    private static int status;
    private static byte[] report = new byte[0];

    private Program() {}

    static void main(Body body) throws Exception {
        status = 0;
        OutputStream stdout = new BufferedOutputStream(System.out, 1 << 16);
        JsonGenerator out = MAPPER.getFactory().createGenerator(stdout);
        out.setRootValueSeparator(new SerializedString("\n"));
        try {
            body.run(MAPPER.readTree(System.in), out);
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            Map<String, String> report = new HashMap<>();
            report.put("exception", thrown.getClass().getName());
            report.put("message", String.valueOf(thrown.getMessage()));
            Program.report = MAPPER.writeValueAsBytes(report);
            System.err.println(MAPPER.writeValueAsString(report));
            status = KAFKA_THREW;
        }
        out.flush();
        stdout.flush();
        System.err.flush();
        if (!staying) {
            System.exit(status); // Kafka's scheduler threads would keep the process alive.
        }
        Logs.shutDownSchedulers();
    }

    /** The process goes on when a program has ended. */
    static void stay() {
        staying = true;
    }

    /** How the last program ended. */
    static int status() {
        return status;
    }

    /** What the last program that Kafka refused said of it. */
    static byte[] report() {
        return report;
    }

    static long number(JsonNode request, String key, long otherwise) {
        return request.hasNonNull(key) ? request.get(key).asLong() : otherwise;
    }
}
