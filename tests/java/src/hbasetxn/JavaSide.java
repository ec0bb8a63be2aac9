package hbasetxn;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hbase.thirdparty.com.google.common.base.Throwables;
import org.apache.hbase.thirdparty.com.google.gson.Gson;
import org.apache.hbase.thirdparty.com.google.gson.GsonBuilder;

/**
 * Plays the Java lock and latch libraries, reads and writes, for tests of another language.
 *
 * <p>Arguments: settings of the client, each {@code name=value}, which say where the cluster is. A request is a line of
 * stdin, an array of JSON; its answer is a line of stdout: {"ok": …} or {"error": …}. Of a load, each cycle is a line
 * {"cycle": …} before the answer. The end of stdin ends the program.
 */
public final class JavaSide {
    private static final Gson JSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

    private final Connection connection;
    private final PrintWriter answers;

    private JavaSide(Connection connection, PrintWriter answers) {
        this.connection = connection;
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        PrintWriter answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        // A library that prints must not be taken for an answer.
        System.setOut(System.err);
        Configuration configuration = HBaseConfiguration.create();
        for (String setting : arguments) {
            String[] parts = setting.split("=", 2);
            configuration.set(parts[0], parts[1]);
        }
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Connection connection = ConnectionFactory.createConnection(configuration)) {
            JavaSide side = new JavaSide(connection, answers);
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                side.answer(line);
            }
        }
        // Threads of the client may be left over.
        System.exit(0);
    }

    private void answer(String line) {
        try {
            say("ok", perform(new Request(line)));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        } catch (Exception error) {
            say("error", Throwables.getStackTraceAsString(error));
        }
    }

    private void say(String what, Object value) {
        synchronized (answers) {
            answers.println(JSON.toJson(Collections.singletonMap(what, value)));
            answers.flush();
        }
    }

    private Object perform(Request request) throws Exception {
        String command = request.text();
        switch (command) {
            case "row": {
                return Bytes.toHex(Keys.row(Bytes.fromHex(request.text())));
            }
            case "spin": {
                return Contention.run(connection, request, cycle -> say("cycle", cycle));
            }
            case "create-locks":
            case "create-latches":
            case "descriptor": {
                try (Admin admin = connection.getAdmin()) {
                    return administer(command, admin, request);
                }
            }
            default: {
                try (Table table = connection.getTable(request.table())) {
                    return operate(command, table, request);
                }
            }
        }
    }

    private static Map<String, Object> administer(String command, Admin admin, Request request) throws IOException {
        switch (command) {
            case "create-locks":
                Tables.createForLocks(admin, request.table());
                return null;
            case "create-latches":
                Tables.createForLatches(admin, request.table());
                return null;
            default:
                return Tables.describe(admin, request.table());
        }
    }

    private static Object operate(String command, Table table, Request request) throws IOException {
        switch (command) {
            case "scan": {
                return Filters.scan(table, request.text());
            }
            case "read": {
                return Reads.read(table, request.texts());
            }
            case "write": {
                Reads.write(table, request.texts());
                return null;
            }
            case "acquire": {
                byte[] row = Keys.lock(request.text(), request.text(), request.text(), request.text());
                return Locks.acquire(table, row, request.number(), System.currentTimeMillis() + request.number());
            }
            case "release": {
                Locks.release(table, Keys.lock(request.text(), request.text(), request.text(), request.text()));
                return null;
            }
            case "init-latch": {
                String farm = request.text();
                byte[] row = Keys.latch(request.text(), request.text());
                Latches.init(table, farm, row, request.number(), request.number());
                return null;
            }
            case "count-latch": {
                String farm = request.text();
                byte[] row = Keys.latch(request.text(), request.text());
                Latches.count(table, farm, row, request.number());
                return null;
            }
            case "get-latch": {
                String level = request.text();
                String farm = request.text();
                return Latches.get(table, level, farm, Keys.latch(request.text(), request.text()));
            }
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }
}
