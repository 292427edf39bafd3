package tidelog.bench;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Times one piece of work of Kafka's engine, one thread. It is repeated for the warm-up time, so that the JIT compiles it,
 * then for one measuring time after another until that no longer makes it faster. The best repetition counts. Where the
 * request has "cpu_time": true, a time is what the thread was on the CPU.
 *
 * <p>Where the request has "turn_s", the program then waits for lines of input: for each it works as long and prints its
 * best repetition, so that somebody else can work in between. It ends with its input.
 */
final class Bench {
    static final ObjectMapper MAPPER = new ObjectMapper();

    /** Does the work once; the number it returns is printed, so that no work can be optimised away. */
    interface Work {
        long once() throws Exception;
    }

    private static final int MIN_REPETITIONS = 3;
    private static final int MAX_WINDOWS = 8;
    private static final double STILL_IMPROVING = 0.97;

    private Bench() {}

    static JsonNode request() throws Exception {
        return MAPPER.readTree(MAPPER.getFactory().createParser(System.in).disable(JsonParser.Feature.AUTO_CLOSE_SOURCE));
    }

    /** Makes what a repetition needs and what is let go after it; neither is timed. */
    interface Preparation<T extends AutoCloseable> {
        T prepare() throws Exception;
    }

    /** Work on what was prepared. */
    interface WorkOn<T> {
        long once(T prepared) throws Exception;
    }

    /** Prints {"seconds": best, "repetitions": n, "witness": number} and ends the program. */
    static void run(JsonNode request, Work work) throws Exception {
        measure(request, work);
        System.exit(0);
    }

    /** The same, without ending the program: there is something to be closed. */
    static void measure(JsonNode request, Work work) throws Exception {
        measure(request, () -> () -> {}, nothing -> work.once());
    }

    /** Like measure, with something made anew for each repetition. */
    static <T extends AutoCloseable> void measure(JsonNode request, Preparation<T> preparation, WorkOn<T> work)
        throws Exception {
        LongSupplier clock = clock(request);
        Result best = repeat(clock, preparation, work, request.get("warmup_s").asDouble(), MIN_REPETITIONS);
        int repetitions = best.repetitions;
        for (int window = 0; window < MAX_WINDOWS; window++) {
            Result next = repeat(clock, preparation, work, request.get("measure_s").asDouble(), MIN_REPETITIONS);
            repetitions += next.repetitions;
            boolean settled = next.bestNanos > best.bestNanos * STILL_IMPROVING;
            best = next.bestNanos < best.bestNanos ? next : best;
            if (settled) {
                break;
            }
        }
        print(new Result(best.bestNanos, repetitions, best.witness));
        if (request.has("turn_s")) {
            while (nextTurn()) {
                print(repeat(clock, preparation, work, request.get("turn_s").asDouble(), 1));
            }
        }
    }

    /** Waits for a line; false at the end of the input. */
    private static boolean nextTurn() throws Exception {
        int next = System.in.read();
        while (next >= 0 && next != 't') {
            next = System.in.read();
        }
        while (next >= 0 && next != '\n') {
            next = System.in.read();
        }
        return next >= 0;
    }

    private static void print(Result result) throws Exception {
        System.out.println(MAPPER.writeValueAsString(Map.of(
            "seconds", result.bestNanos / 1e9, "repetitions", result.repetitions, "witness", result.witness)));
        System.out.flush();
    }

    private record Result(long bestNanos, int repetitions, long witness) {}

    private static LongSupplier clock(JsonNode request) {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        return request.get("cpu_time").asBoolean() ? threads::getCurrentThreadCpuTime : System::nanoTime;
    }

    private static <T extends AutoCloseable> Result repeat(
        LongSupplier clock, Preparation<T> preparation, WorkOn<T> work, double seconds, int least)
        throws Exception {
        long best = Long.MAX_VALUE;
        long witness = 0;
        int repetitions = 0;
        long left = (long) (seconds * 1e9);
        while (repetitions < least || left > 0) {
            try (T prepared = preparation.prepare()) {
                long start = clock.getAsLong();
                witness = work.once(prepared);
                long taken = clock.getAsLong() - start;
                best = Math.min(best, taken);
                left -= taken;
            }
            repetitions++;
        }
        return new Result(best, repetitions, witness);
    }
}
