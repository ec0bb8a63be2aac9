package hbasetxn.conformance;

import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/** Random calls: first on regions that stay, with flushes; then while the regions move. */
final class RandomCalls {
    private final Connection connection;
    private final Transcript transcript;
    private final String prefix;
    private final long seed;

    RandomCalls(Connection connection, Transcript transcript, String prefix, long seed) {
        this.connection = connection;
        this.transcript = transcript;
        this.prefix = prefix;
        this.seed = seed;
    }

    void run(int calls) throws Exception {
        try (Admin admin = connection.getAdmin()) {
            TableName steady = TableName.valueOf(prefix + "random");
            try (Table table = connection.getTable(steady)) {
                admin.createTable(Rows.descriptor(steady).build(), Rows.splitKeys());
                Choices choices = new Choices(seed, false, "a", "b", "m");
                for (int call = 0; call < calls; call++) {
                    if (choices.below(40) == 0) {
                        flush(admin, steady);
                    } else if (choices.below(20) == 0) {
                        scan(table, new Scan().setRaw(true).readAllVersions());
                    } else {
                        call(table, choices);
                    }
                }
                Rows.drop(admin, steady);
            }
            // A move flushes, which shows only in families of few versions.
            TableName moving = TableName.valueOf(prefix + "moving");
            Configuration patient = new Configuration(connection.getConfiguration());
            // On a busy machine a region takes long to open again.
            patient.setInt("hbase.client.retries.number", 20);
            try (Connection other = ConnectionFactory.createConnection(patient);
                    Table table = other.getTable(moving)) {
                admin.createTable(Rows.descriptor(moving).build(), Rows.splitKeys());
                Choices choices = new Choices(seed + 1, true, "m");
                try (Mover mover = new Mover(connection, moving)) {
                    for (int call = 0; call < calls / 3; call++) {
                        call(table, choices);
                    }
                    transcript.call("mover", mover::stop);
                }
                Rows.drop(admin, moving);
            }
        }
    }

    private void flush(Admin admin, TableName table) throws Exception {
        transcript.call("flush", () -> {
            for (RegionInfo region : admin.getRegions(table)) {
                admin.flushRegion(region.getRegionName());
            }
            return "ok";
        });
    }

    private void scan(Table table, Scan scan) throws Exception {
        transcript.call("scan " + scan, () -> Rows.all(table, scan));
    }

    private void call(Table table, Choices choices) throws Exception {
        byte[] row = choices.row();
        String name = Bytes.toString(row);
        switch (choices.below(10)) {
            case 0:
            case 1: {
                Get get = choices.get(row);
                transcript.call("get " + get, () -> table.get(get));
                break;
            }
            case 2:
            case 3:
                scan(table, choices.scan());
                break;
            case 4: {
                RowMutations mutations = choices.mutations(row);
                transcript.call("mutate " + mutations.getMutations(), () -> table.mutateRow(mutations));
                break;
            }
            case 5: {
                CheckAndMutate checked = choices.checkAndMutate(row);
                transcript.call(
                        "check " + name + ' ' + checked.getCompareOp() + ' ' + checked.getFilter() + ' '
                                + text(checked.getAction()),
                        () -> table.checkAndMutate(checked));
                break;
            }
            case 6: {
                List<Row> batch = choices.batch();
                Object[] answers = new Object[batch.size()];
                transcript.call("batch", () -> {
                    table.batch(batch, answers);
                    return "ok";
                });
                transcript.call("answers", () -> answers);
                break;
            }
            case 7: {
                List<Mutation> mutations = choices.together(row);
                transcript.call("together " + mutations, () -> Rows.mutateTogether(table, row, mutations));
                break;
            }
            default: {
                Mutation mutation = choices.mutation(row);
                transcript.call(text(mutation), () -> mutate(table, mutation));
            }
        }
    }

    private static String text(Row action) {
        return action instanceof RowMutations
                ? ((RowMutations) action).getMutations().toString()
                : action.getClass().getSimpleName() + ' ' + action;
    }

    private static Object mutate(Table table, Mutation mutation) throws Exception {
        if (mutation instanceof Put) {
            table.put((Put) mutation);
            return "ok";
        }
        if (mutation instanceof Delete) {
            table.delete((Delete) mutation);
            return "ok";
        }
        if (mutation instanceof Increment) {
            return table.increment((Increment) mutation);
        }
        return table.append((Append) mutation);
    }
}
