package tidelog.oracle;

import java.nio.charset.StandardCharsets;
import java.util.Random;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Keys, values, headers and times from a seed: nulls, empties, text that compresses and bytes that do not. */
final class RandomRecords {
    static final Header[] NO_HEADERS = new Header[0];

    private static final String[] HEADER_KEYS = {"", "trace", "größe", "quote\"back\\slash", "line\nbreak", "波"};

    final Random random;
    private long timestamp;

    RandomRecords(long seed, long timestamp) {
        this.random = new Random(seed);
        this.timestamp = timestamp;
    }

    static Compression compression(String codec) {
        return switch (codec) {
            case "none" -> Compression.NONE;
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> throw new IllegalArgumentException("no such codec: " + codec);
        };
    }

    boolean oneIn(int n) {
        return random.nextInt(n) == 0;
    }

    /** Mostly later than the last one, now and then well before it. */
    long timestamp() {
        timestamp += random.nextInt(2000);
        return oneIn(10) ? timestamp - random.nextInt(30_000) : timestamp;
    }

    byte[] key() {
        if (oneIn(5)) {
            return null;
        }
        return oneIn(20) ? new byte[0] : ("key-" + random.nextInt(50)).getBytes(StandardCharsets.UTF_8);
    }

    byte[] value() {
        if (oneIn(15)) {
            return null;
        }
        if (oneIn(20)) {
            return new byte[0];
        }
        byte[] noise = new byte[random.nextInt(100)];
        random.nextBytes(noise);
        if (oneIn(4)) {
            return noise;
        }
        String text = "value " + random.nextInt(1_000_000) + " ".repeat(random.nextInt(40)) + "end";
        return text.getBytes(StandardCharsets.UTF_8);
    }

    Header[] headers() {
        if (!oneIn(3)) {
            return NO_HEADERS;
        }
        Header[] headers = new Header[1 + random.nextInt(3)];
        for (int i = 0; i < headers.length; i++) {
            headers[i] = new RecordHeader(HEADER_KEYS[random.nextInt(HEADER_KEYS.length)], value());
        }
        return headers;
    }
}
