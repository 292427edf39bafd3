package tidelog.oracle;

import java.io.File;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.server.util.FileLock;

/**
 * HoldLock ROOT: takes Kafka's lock on a log directory, as a broker does, and says "locked" or "refused". Each byte on
 * standard input asks for one thing: 't' try again, 'd' destroy it as a stopping broker does (unlock, unlink, close) and
 * say "destroyed". Ends with its standard input.
 */
public final class HoldLock {
    private HoldLock() {}

    public static void main(String[] args) throws Exception {
        FileLock lock = new FileLock(new File(args[0], ".lock"));
        say(lock.tryLock() ? "locked" : "refused");
        for (int order = System.in.read(); order >= 0; order = System.in.read()) {
            if (order == 't') {
                say(lock.tryLock() ? "locked" : "refused");
            } else if (order == 'd') {
                lock.destroy();
                say("destroyed");
            }
        }
    }

    private static void say(String word) {
        System.out.write((word + "\n").getBytes(StandardCharsets.UTF_8), 0, word.length() + 1);
        System.out.flush();
    }
}
