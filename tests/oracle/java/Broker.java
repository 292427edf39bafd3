package tidelog.oracle;

import java.io.IOException;

/**
 * Runs kafka.Kafka with the given arguments and stops it, orderly, when standard input ends: a broker must not outlive
 * the test process that started it, however that one died.
 */
public final class Broker {
    private Broker() {}

    public static void main(String[] args) {
        Thread watch = new Thread(Broker::exitAtEndOfInput, "watch-parent");
        watch.setDaemon(true);
        watch.start();
        kafka.Kafka.main(args);
    }

    private static void exitAtEndOfInput() {
        try {
            while (System.in.read() >= 0) {
                // Nothing is said on this pipe; only its end counts.
            }
        } catch (IOException broken) {
            // A broken pipe is an end as well.
        }
        System.exit(0);
    }
}
