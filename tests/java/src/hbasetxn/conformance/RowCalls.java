package hbasetxn.conformance;

import static hbasetxn.conformance.Rows.bytes;

import java.util.ArrayList;
import java.util.Arrays;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.io.TimeRange;
import org.apache.hadoop.hbase.util.Bytes;

/** Calls for single rows, batches, and several rows of a region. */
final class RowCalls {
    private static final byte[] A = bytes("a");
    private static final byte[] B = bytes("b");
    private static final byte[] M = bytes("m");
    private static final byte[] Q = bytes("q");
    private static final byte[] N = bytes("n");
    private static final byte[] R1 = bytes("r1");
    private static final byte[] R4 = bytes("r4");

    private final Connection connection;
    private final Transcript transcript;
    private final TableName name;

    RowCalls(Connection connection, Transcript transcript, String prefix) {
        this.connection = connection;
        this.transcript = transcript;
        name = TableName.valueOf(prefix + "rows");
    }

    void run() throws Exception {
        try (Admin admin = connection.getAdmin();
                Table table = connection.getTable(name)) {
            admin.createTable(Rows.descriptor(name).build(), Rows.splitKeys());
            putsAndGets(table);
            deletes(table);
            additions(table);
            conditions(table);
            mutationsOfARow(table);
            batches(table);
            together(table);
            Rows.drop(admin, name);
        }
    }

    private void call(String what, Transcript.Call call) throws InterruptedException {
        transcript.call(what, call);
    }

    private void act(String what, Transcript.Action action) throws InterruptedException {
        transcript.act(what, action);
    }

    private static Put put(byte[] row, byte[] family, byte[] qualifier, String value) {
        return new Put(row).addColumn(family, qualifier, bytes(value));
    }

    private void read(Table table, byte[] row) throws InterruptedException {
        call("read", () -> table.get(new Get(row).readAllVersions()));
    }

    private void putsAndGets(Table table) throws Exception {
        act("put", () -> table.put(
                put(R1, A, Q, "one").addColumn(B, Q, bytes("two")).addColumn(M, N, 5, bytes("five"))));
        act("put without a name", () -> table.put(put(R1, A, bytes(""), "")));
        act("put again", () -> table.put(put(R1, B, Q, "three")));
        act("put a third", () -> table.put(put(R1, B, Q, "four")));
        act("put without a log", () -> table.put(put(R1, M, Q, "unlogged").setDurability(Durability.SKIP_WAL)));
        act("put with a life", () -> table.put(put(R1, M, bytes("ttl"), "mortal").setTTL(3_600_000)));
        act("put that ends", () -> table.put(put(R1, M, bytes("end"), "mortal").setTTL(1)));
        read(table, R1);
        call("get", () -> table.get(new Get(R1)));
        call("get family", () -> table.get(new Get(R1).addFamily(B)));
        call("get versions", () -> table.get(new Get(R1).addFamily(B).readVersions(5)));
        call("get column", () -> table.get(new Get(R1).addColumn(A, Q).addColumn(M, N)));
        call("get time", () -> table.get(new Get(R1).setTimestamp(5)));
        call("get times", () -> table.get(new Get(R1).setTimeRange(1, 6)));
        call("get limited", () -> table.get(new Get(R1).setMaxResultsPerColumnFamily(1)));
        call("get behind", () -> table.get(new Get(R1).setRowOffsetPerColumnFamily(1)));
        call("get filtered", () -> table.get(new Get(R1).setFilter(
                new SingleColumnValueFilter(A, Q, CompareOperator.EQUAL, bytes("one")))));
        call("exists", () -> table.exists(new Get(R1)));
        call("exists not", () -> table.exists(new Get(bytes("r2"))));
        call("exists of several", () -> table.exists(Arrays.asList(new Get(R1), new Get(bytes("r2")), new Get(R4))));
        call("get nothing", () -> table.get(new Get(bytes("r2"))));
        call("get several", () ->
                table.get(Arrays.asList(new Get(R1).addFamily(A), new Get(R4), new Get(bytes("r8")))));
        call("get of a missing family", () -> table.get(new Get(R1).addFamily(bytes("zz"))));
        act("put to a missing family", () -> table.put(put(R1, bytes("zz"), Q, "v")));
        call("get several of a missing family", () ->
                table.get(Arrays.asList(new Get(R1), new Get(R4).addFamily(bytes("zz")))));
    }

    private void deletes(Table table) throws Exception {
        act("put", () -> table.put(put(R4, M, Q, "1")));
        act("put", () -> table.put(put(R4, M, Q, "2")));
        act("put", () -> table.put(put(R4, M, Q, "3").addColumn(A, Q, bytes("a")).addColumn(B, N, 9, bytes("b"))));
        act("delete the newest", () -> table.delete(new Delete(R4).addColumn(M, Q)));
        read(table, R4);
        act("delete twice in one", () -> table.delete(new Delete(R4).addColumn(M, Q).addColumn(M, Q)));
        read(table, R4);
        act("delete a version", () -> table.delete(new Delete(R4).addColumn(B, N, 9)));
        read(table, R4);
        act("put under it", () -> table.put(new Put(R4).addColumn(B, N, 9, bytes("masked"))));
        read(table, R4);
        act("delete a column", () -> table.delete(new Delete(R4).addColumns(A, Q)));
        read(table, R4);
        act("put old", () -> table.put(new Put(R4).addColumn(A, Q, 3, bytes("masked"))));
        act("put", () -> table.put(put(R4, A, N, "x").addColumn(B, Q, bytes("y"))));
        act("delete a family", () -> table.delete(new Delete(R4).addFamily(A)));
        read(table, R4);
        act("delete a version of a family", () -> table.delete(new Delete(R4).addFamilyVersion(B, 9)));
        act("delete all", () -> table.delete(new Delete(R4)));
        read(table, R4);
        act("delete nothing", () -> table.delete(new Delete(bytes("r2"))));
        act("delete of a missing family", () -> table.delete(new Delete(R4).addFamily(bytes("zz"))));
        act("delete several", () -> table.delete(
                new ArrayList<>(Arrays.asList(new Delete(R4), new Delete(bytes("r7"))))));
    }

    private void additions(Table table) throws Exception {
        byte[] row = bytes("r5");
        call("increment", () -> table.incrementColumnValue(row, A, N, 5));
        call("increment again", () -> table.incrementColumnValue(row, A, N, -7));
        call("increment two", () -> table.increment(new Increment(row).addColumn(A, N, 1).addColumn(B, N, 10)));
        call("increment silently", () ->
                table.increment(new Increment(row).addColumn(A, N, 1).setReturnResults(false)));
        call("increment by nothing", () -> table.increment(new Increment(row).addColumn(A, N, 0)));
        call("increment at times", () ->
                table.increment(new Increment(row).addColumn(B, N, 1).setTimeRange(1, 1_000)));
        call("append", () -> table.append(new Append(row).addColumn(M, Q, bytes("ab"))));
        call("append again", () ->
                table.append(new Append(row).addColumn(M, Q, bytes("cd")).addColumn(A, Q, bytes("x"))));
        call("append silently", () ->
                table.append(new Append(row).addColumn(M, Q, bytes("ef")).setReturnResults(false)));
        call("increment of text", () -> table.increment(new Increment(row).addColumn(M, Q, 1)));
        call("increment of a missing family", () -> table.increment(new Increment(row).addColumn(bytes("zz"), Q, 1)));
        call("append to a missing family", () -> table.append(new Append(row).addColumn(bytes("zz"), Q, bytes("v"))));
        read(table, row);
    }

    private void conditions(Table table) throws Exception {
        byte[] row = bytes("r6");
        CheckAndMutate.Builder absent = CheckAndMutate.newBuilder(row).ifNotExists(A, Q);
        call("absent", () -> table.checkAndMutate(absent.build(put(row, A, Q, "1"))));
        call("absent no more", () -> table.checkAndMutate(absent.build(put(row, A, Q, "2"))));
        call("equals", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifEquals(A, Q, bytes("1")).build(put(row, A, Q, "3"))));
        for (CompareOperator operator : Choices.OPERATORS) {
            call("matches " + operator, () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                    .ifMatches(A, Q, operator, bytes("4"))
                    .build(put(row, B, Q, operator.toString()))));
        }
        call("of a missing column", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifMatches(A, N, CompareOperator.NOT_EQUAL, bytes("4"))
                .build(put(row, B, N, "missing"))));
        call("equals nothing", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifEquals(A, N, null).build(put(row, B, N, "null"))));
        call("filter", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifMatches(new SingleColumnValueFilter(A, Q, CompareOperator.EQUAL, bytes("3")))
                .build(new Delete(row).addColumns(B, N))));
        call("filter that fails", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifMatches(new SingleColumnValueFilter(A, Q, CompareOperator.EQUAL, bytes("9")))
                .build(new Delete(row))));
        call("times", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifEquals(A, Q, bytes("3"))
                .timeRange(TimeRange.between(1, 10))
                .build(put(row, B, N, "times"))));
        call("increment", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifEquals(A, Q, bytes("3"))
                .build(new Increment(row).addColumn(M, N, 3))));
        call("increment that fails", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifEquals(A, Q, bytes("9"))
                .build(new Increment(row).addColumn(M, N, 3))));
        call("append", () -> table.checkAndMutate(CheckAndMutate.newBuilder(row)
                .ifEquals(A, Q, bytes("3"))
                .build(new Append(row).addColumn(M, Q, bytes("ap")))));
        RowMutations mutations = RowMutations.of(Arrays.asList(
                put(row, A, N, "rm"), new Delete(row).addColumns(B, Q), new Increment(row).addColumn(M, N, 4)));
        call("mutations", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifEquals(A, Q, bytes("3")).build(mutations)));
        call("mutations that fail", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifEquals(A, Q, bytes("9")).build(mutations)));
        call("several", () -> table.checkAndMutate(Arrays.asList(
                CheckAndMutate.newBuilder(row).ifEquals(A, Q, bytes("3")).build(put(row, A, Q, "5")),
                CheckAndMutate.newBuilder(R1).ifNotExists(A, Q).build(put(R1, A, Q, "never")),
                CheckAndMutate.newBuilder(R4).ifNotExists(A, Q).build(new Increment(R4).addColumn(A, N, 1)))));
        call("of a missing family", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifNotExists(bytes("zz"), Q).build(put(row, A, Q, "6"))));
        call("change of a missing family", () -> table.checkAndMutate(
                CheckAndMutate.newBuilder(row).ifEquals(A, Q, bytes("5")).build(put(row, bytes("zz"), Q, "6"))));
        read(table, row);
    }

    private void mutationsOfARow(Table table) throws Exception {
        byte[] row = bytes("r7");
        call("mutate row", () -> table.mutateRow(RowMutations.of(
                Arrays.asList(put(row, A, Q, "1"), put(row, B, Q, "2"), new Delete(row).addColumns(M, Q)))));
        call("mutate and add", () -> table.mutateRow(RowMutations.of(Arrays.asList(
                new Increment(row).addColumn(A, N, 2), new Append(row).addColumn(A, Q, bytes("2")),
                put(row, B, Q, "3")))));
        call("mutate and delete", () -> table.mutateRow(RowMutations.of(
                Arrays.asList(put(row, A, Q, "gone"), new Delete(row).addColumns(A, Q)))));
        call("mutate a missing family", () -> table.mutateRow(RowMutations.of(
                Arrays.asList(put(row, A, Q, "never"), put(row, bytes("zz"), Q, "never")))));
        read(table, row);
    }

    private void batch(String what, Table table, Row... rows) throws Exception {
        Object[] answers = new Object[rows.length];
        act(what, () -> table.batch(Arrays.asList(rows), answers));
        call(what + ", answers", () -> answers);
    }

    private void batches(Table table) throws Exception {
        byte[] r0 = bytes("r0");
        byte[] r3 = bytes("r3");
        byte[] r8 = bytes("r8");
        batch("batch", table, put(r0, A, Q, "1"), new Get(R1).addFamily(A), new Delete(r3),
                new Increment(r8).addColumn(A, N, 1), new Append(R4).addColumn(M, Q, bytes("z")));
        batch("batch with mutations", table, RowMutations.of(Arrays.asList(put(r0, B, Q, "2"), put(r0, M, Q, "3"))),
                CheckAndMutate.newBuilder(r3).ifNotExists(A, Q).build(put(r3, A, Q, "4")),
                CheckAndMutate.newBuilder(r8).ifNotExists(A, N).build(put(r8, A, Q, "5")), new Get(r0));
        batch("batch that fails in part", table, put(r0, A, Q, "6"), put(r3, bytes("zz"), Q, "7"),
                new Get(r8).addFamily(bytes("zz")), put(r8, A, Q, "8"));
        batch("batch of increments", table, new Increment(r0).addColumn(A, N, 1), new Increment(r3).addColumn(A, N, 2),
                new Increment(r8).addColumn(A, Q, 3));
        read(table, r0);
        read(table, r3);
        read(table, r8);
    }

    private void together(Table table) throws Exception {
        byte[] r2 = bytes("r2");
        call("endpoint", () -> Rows.mutateTogether(table, R1, Arrays.asList(
                put(R1, A, N, "1"), put(r2, A, N, "2"), new Delete(R1).addColumns(B, Q))));
        read(table, R1);
        read(table, r2);
        call("endpoint over regions", () ->
                Rows.mutateTogether(table, R1, Arrays.asList(put(R1, A, N, "3"), put(R4, A, N, "4"))));
        call("endpoint with a missing family", () ->
                Rows.mutateTogether(table, R1, Arrays.asList(put(R1, A, N, "3"), put(r2, bytes("zz"), N, "4"))));
        read(table, R1);
        call("counter", () -> Bytes.toStringBinary(table.get(new Get(bytes("r5"))).getValue(A, N)));
    }
}
