package tidelog.oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.File;
import java.util.Optional;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.AbstractIndex;
import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.apache.kafka.storage.internals.log.TimeIndex;
import org.apache.kafka.storage.internals.log.TimestampOffset;
import org.apache.kafka.storage.internals.log.TransactionIndex;
import org.apache.kafka.storage.internals.log.TxnIndexSearchResult;

/**
 * Does the same to Kafka's own index as was done to ours, and prints what it answered.
 *
 * <p>Request: cases, each with kind (offset, time, txn), file, base, max and steps ([name, number...]). Each case is
 * answered by one line: an array with an answer per step, an exception by its class name.
 */
public final class Indexes {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    private Indexes() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            for (JsonNode one : request.get("cases")) {
                File file = new File(one.get("file").asText());
                long base = one.get("base").asLong();
                int max = one.get("max").asInt();
                ArrayNode answers = MAPPER.createArrayNode();
                switch (one.get("kind").asText()) {
                    case "offset" -> {
                        try (OffsetIndex index = new OffsetIndex(file, base, max)) {
                            one.get("steps").forEach(step -> answers.add(answer(() -> offset(index, step))));
                        }
                    }
                    case "time" -> {
                        try (TimeIndex index = new TimeIndex(file, base, max)) {
                            one.get("steps").forEach(step -> answers.add(answer(() -> time(index, step))));
                        }
                    }
                    default -> {
                        try (TransactionIndex index = new TransactionIndex(base, file)) {
                            one.get("steps").forEach(step -> answers.add(answer(() -> txn(index, step))));
                        }
                    }
                }
                out.writeTree(answers);
            }
        });
    }

    interface Step {
        JsonNode run() throws Exception;
    }

    private static JsonNode answer(Step step) {
        try {
            return step.run();
        } catch (Exception thrown) {
            return MAPPER.getNodeFactory().textNode(thrown.getClass().getSimpleName());
        }
    }

    private static JsonNode numbers(long... values) {
        ArrayNode node = MAPPER.createArrayNode();
        for (long value : values) {
            node.add(value);
        }
        return node;
    }

    private static JsonNode pair(OffsetPosition entry) {
        return numbers(entry.offset(), entry.position());
    }

    private static JsonNode pair(TimestampOffset entry) {
        return numbers(entry.timestamp(), entry.offset());
    }

    private static JsonNode state(AbstractIndex index) {
        return numbers(index.entries(), index.maxEntries(), index.isFull() ? 1 : 0, index.length());
    }

    private static JsonNode common(AbstractIndex index, JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "truncate_to" -> index.truncateTo(step.get(1).asLong());
            case "resize" -> index.resize(step.get(1).asInt());
            case "trim" -> index.trimToValidSize();
            case "reset" -> index.reset();
            default -> throw new UnsupportedOperationException(step.toString());
        }
        return state(index);
    }

    private static JsonNode offset(OffsetIndex index, JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "append" -> {
                index.append(step.get(1).asLong(), step.get(2).asInt());
                return state(index);
            }
            case "lookup" -> {
                return pair(index.lookup(step.get(1).asLong()));
            }
            case "upper" -> {
                Optional<OffsetPosition> found =
                    index.fetchUpperBoundOffset(new OffsetPosition(0, step.get(1).asInt()), step.get(2).asInt());
                return found.isPresent() ? pair(found.get()) : numbers();
            }
            case "last" -> {
                return numbers(index.lastOffset());
            }
            default -> {
                return common(index, step);
            }
        }
    }

    private static JsonNode time(TimeIndex index, JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "append" -> {
                index.maybeAppend(step.get(1).asLong(), step.get(2).asLong(), step.get(3).asInt() == 1);
                return state(index);
            }
            case "lookup" -> {
                return pair(index.lookup(step.get(1).asLong()));
            }
            case "last" -> {
                return pair(index.lastEntry());
            }
            default -> {
                return common(index, step);
            }
        }
    }

    private static JsonNode txn(TransactionIndex index, JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "append" -> {
                index.append(new AbortedTxn(
                    step.get(1).asLong(), step.get(2).asLong(), step.get(3).asLong(), step.get(4).asLong()));
                return numbers();
            }
            case "collect" -> {
                TxnIndexSearchResult found = index.collectAbortedTxns(step.get(1).asLong(), step.get(2).asLong());
                ArrayNode node = MAPPER.createArrayNode().add(found.isComplete() ? 1 : 0);
                for (AbortedTxn txn : found.abortedTransactions()) {
                    node.add(txn.producerId()).add(txn.firstOffset()).add(txn.lastOffset());
                    node.add(txn.lastStableOffset());
                }
                return node;
            }
            case "truncate_to" -> {
                index.truncateTo(step.get(1).asLong());
                return numbers();
            }
            case "reset" -> {
                index.reset();
                return numbers();
            }
            default -> throw new UnsupportedOperationException(step.toString());
        }
    }
}
