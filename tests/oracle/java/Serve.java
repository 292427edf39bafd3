package tidelog.oracle;

import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;

/**
 * Runs one program after the other in this process, until standard input ends.
 *
 * <p>A request is the name of the program's class and its JSON, each as a length of four bytes and UTF-8. The answer is
 * the exit code in one byte, then what the program wrote, with its length: to standard output if it answered, and the
 * report if Kafka threw. Logging goes to standard error.
 */
public final class Serve {
    private Serve() {}

    public static void main(String[] args) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(System.out);
        while (true) {
            byte[] name;
            try {
                name = piece(in);
            } catch (EOFException end) {
                System.exit(0);
                return;
            }
            byte[] request = piece(in);
            ByteArrayOutputStream answer = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(request));
            System.setOut(new PrintStream(answer, false, StandardCharsets.UTF_8));
            int status = run(new String(name, StandardCharsets.UTF_8));
            byte[] told = status == 0 ? answer.toByteArray() : Program.report();
            out.writeByte(status);
            out.writeInt(told.length);
            out.write(told);
            out.flush();
        }
    }

    private static int run(String name) throws Exception {
        Program.stay();
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException failure) {
            throw new IllegalStateException(name, failure.getCause()); // A mistake of ours: this process ends.
        }
        System.out.flush();
        return Program.status();
    }

    private static byte[] piece(DataInputStream in) throws Exception {
        byte[] data = new byte[in.readInt()];
        in.readFully(data);
        return data;
    }
}
