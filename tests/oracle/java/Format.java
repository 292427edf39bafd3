package tidelog.oracle;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import kafka.tools.StorageTool;

/** {"arguments": [text]}: kafka-storage.sh with these arguments; one line, {"status", "said"}. */
public final class Format {
    private Format() {}

    public static void main(String[] args) throws Exception {
        Program.main((request, out) -> {
            List<String> arguments = new ArrayList<>();
            request.get("arguments").forEach(each -> arguments.add(each.asText()));
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            int status =
                StorageTool.execute(arguments.toArray(new String[0]), new PrintStream(said, true, StandardCharsets.UTF_8));
            out.writeStartObject();
            out.writeNumberField("status", status);
            out.writeStringField("said", said.toString(StandardCharsets.UTF_8));
            out.writeEndObject();
        });
    }
}
