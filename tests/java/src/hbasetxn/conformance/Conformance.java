package hbasetxn.conformance;

import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;

/**
 * Performs the same calls on any cluster, and prints a line for each answer. Two clusters that behave alike print the
 * same.
 *
 * <p>Arguments: the beginning of the names of its tables, a seed, the number of random calls, and settings of the
 * client, each {@code name=value}, which say where the cluster is.
 */
public final class Conformance {
    private Conformance() {}

    public static void main(String[] arguments) throws Exception {
        PrintWriter lines = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        // A library that prints must not be taken for an answer.
        System.setOut(System.err);
        String tables = arguments[0];
        long seed = Long.parseLong(arguments[1]);
        int calls = Integer.parseInt(arguments[2]);
        Configuration configuration = HBaseConfiguration.create();
        // Calls that never succeed give up in four seconds.
        configuration.setInt("hbase.client.pause", 20);
        configuration.setInt("hbase.client.retries.number", 8);
        for (int at = 3; at < arguments.length; at++) {
            String[] parts = arguments[at].split("=", 2);
            configuration.set(parts[0], parts[1]);
        }
        Transcript transcript = new Transcript(lines, tables);
        try (Connection connection = ConnectionFactory.createConnection(configuration)) {
            new TableCalls(connection, transcript, tables).run();
            new RowCalls(connection, transcript, tables).run();
            new ScanCalls(connection, transcript, tables).run();
            new RandomCalls(connection, transcript, tables, seed).run(calls);
        }
        lines.println("done");
        lines.flush();
        // Threads of the client may be left over.
        System.exit(0);
    }
}
