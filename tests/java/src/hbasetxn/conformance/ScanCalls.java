package hbasetxn.conformance;

import static hbasetxn.conformance.Rows.bytes;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.ColumnPrefixFilter;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.filter.PageFilter;
import org.apache.hadoop.hbase.filter.PrefixFilter;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.filter.SubstringComparator;
import org.apache.hadoop.hbase.filter.ValueFilter;

/** Scans. */
final class ScanCalls {
    private final Connection connection;
    private final Transcript transcript;
    private final TableName name;

    ScanCalls(Connection connection, Transcript transcript, String prefix) {
        this.connection = connection;
        this.transcript = transcript;
        name = TableName.valueOf(prefix + "scans");
    }

    void run() throws Exception {
        try (Admin admin = connection.getAdmin();
                Table table = connection.getTable(name)) {
            admin.createTable(Rows.descriptor(name).build(), Rows.splitKeys());
            fill(table);
            shapes(table);
            filters(table);
            scanners(admin, table);
            Rows.drop(admin, name);
        }
    }

    private static void fill(Table table) throws Exception {
        List<Put> puts = new ArrayList<>();
        for (int row = 0; row < 9; row++) {
            Put put = new Put(bytes("r" + row));
            for (int column = 0; column < 5; column++) {
                put.addColumn(bytes("a"), bytes("q" + column), 10, bytes("v" + row + column));
                put.addColumn(bytes("m"), bytes("p" + column), 11 + column, bytes("w" + row * column));
            }
            put.addColumn(bytes("m"), bytes("p1"), 20, bytes("newer"));
            puts.add(put);
        }
        table.put(puts);
        table.delete(new Delete(bytes("r2"), 100));
        table.delete(new Delete(bytes("r7")).addColumns(bytes("a"), bytes("q1"), 100));
    }

    private void scan(String what, Table table, Scan scan) throws Exception {
        transcript.call(what, () -> Rows.all(table, scan));
    }

    private static Scan between(String from, String to) {
        return new Scan().withStartRow(bytes(from)).withStopRow(bytes(to));
    }

    private void shapes(Table table) throws Exception {
        scan("all", table, new Scan());
        scan("caching", table, new Scan().setCaching(2));
        scan("one by one", table, new Scan().setCaching(1).addFamily(bytes("a")));
        scan("limit", table, new Scan().setLimit(4));
        scan("limit over regions", table, new Scan().setLimit(5).setCaching(2).addFamily(bytes("a")));
        scan("one row", table, between("r4", "r9").setOneRowLimit());
        scan("reversed", table, new Scan().setReversed(true).addFamily(bytes("a")));
        scan("reversed, limit", table, new Scan().setReversed(true).setLimit(5).setCaching(2).addFamily(bytes("m")));
        scan("reversed between", table, between("r6", "r1").setReversed(true).addFamily(bytes("m")));
        scan("reversed inclusive", table, new Scan().withStartRow(bytes("r6"), false).withStopRow(bytes("r1"), true)
                .setReversed(true).addFamily(bytes("m")));
        scan("between", table, between("r2", "r7"));
        scan("inclusive", table, new Scan().withStartRow(bytes("r1"), false).withStopRow(bytes("r7"), true));
        scan("of one row", table, between("r4", "r4"));
        scan("of no row", table, between("r41", "r42"));
        scan("inverted", table, between("r6", "r4"));
        scan("batch", table, new Scan().setBatch(3));
        scan("batch of one", table, between("r3", "r5").setBatch(1));
        scan("batch, caching", table, new Scan().setBatch(2).setCaching(3));
        scan("batch, reversed", table, new Scan().setBatch(4).setReversed(true));
        scan("small answers", table, new Scan().setMaxResultSize(1));
        scan("small answers, caching", table, new Scan().setMaxResultSize(200).setCaching(3));
        transcript.call("partial rows", () -> joined(
                Rows.all(table, new Scan().setAllowPartialResults(true).setMaxResultSize(1))));
        scan("versions", table, new Scan().readVersions(2));
        scan("all versions", table, new Scan().readAllVersions().addFamily(bytes("m")));
        scan("raw", table, new Scan().setRaw(true).readAllVersions());
        scan("raw, one version", table, between("r1", "r3").setRaw(true));
        scan("raw of a column", table, new Scan().setRaw(true).addColumn(bytes("a"), bytes("q")));
        scan("columns", table, new Scan().addColumn(bytes("a"), bytes("q3")).addColumn(bytes("m"), bytes("p1")));
        scan("times", table, new Scan().setTimeRange(11, 14));
        scan("times of a family", table, new Scan().setColumnFamilyTimeRange(bytes("m"), 12, 13));
        scan("limit of a family", table, new Scan().setMaxResultsPerColumnFamily(2));
        scan("behind", table, new Scan().setMaxResultsPerColumnFamily(2).setRowOffsetPerColumnFamily(1));
        scan("pread", table, new Scan().setReadType(Scan.ReadType.PREAD).addColumn(bytes("a"), bytes("q0")));
        scan("stream", table, new Scan().setReadType(Scan.ReadType.STREAM).addColumn(bytes("a"), bytes("q0")));
        scan("prefetched", table, new Scan().setAsyncPrefetch(true).setCaching(2).addColumn(bytes("a"), bytes("q0")));
        scan("prefix", table, new Scan().setStartStopRowForPrefixScan(bytes("r3")));
        scan("missing family", table, new Scan().addFamily(bytes("zz")));
    }

    /** The values of each row, whatever the results that it came in. */
    private static List<String> joined(List<Result> results) {
        List<String> rows = new ArrayList<>();
        String last = null;
        int cells = 0;
        for (Result result : results) {
            String row = new String(result.getRow());
            if (last != null && !row.equals(last)) {
                rows.add(last + " " + cells);
                cells = 0;
            }
            last = row;
            cells += result.size();
        }
        rows.add(last + " " + cells);
        return rows;
    }

    private void filters(Table table) throws Exception {
        Filter value = new SingleColumnValueFilter(
                bytes("a"), bytes("q1"), CompareOperator.GREATER, bytes("v4"));
        Filter[] filters = {
            value,
            new PrefixFilter(bytes("r4")),
            new PageFilter(2),
            new KeyOnlyFilter(),
            new KeyOnlyFilter(true),
            new FirstKeyOnlyFilter(),
            new ColumnPrefixFilter(bytes("q")),
            new RowFilter(CompareOperator.GREATER_OR_EQUAL, new BinaryComparator(bytes("r5"))),
            new ValueFilter(CompareOperator.EQUAL, new SubstringComparator("4")),
            new FilterList(FilterList.Operator.MUST_PASS_ALL, value, new ColumnPrefixFilter(bytes("q"))),
            new FilterList(
                    FilterList.Operator.MUST_PASS_ONE,
                    new PrefixFilter(bytes("r1")),
                    new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(bytes("w0")))),
        };
        for (Filter filter : filters) {
            String what = filter.toString();
            scan(what, table, new Scan().setFilter(filter));
            scan(what + ", caching", table, new Scan().setFilter(filter).setCaching(2));
            scan(what + ", limit", table, new Scan().setFilter(filter).setLimit(2));
            if (!filter.hasFilterRow()) {
                scan(what + ", batch", table, new Scan().setFilter(filter).setBatch(2));
            }
            scan(what + ", reversed", table, new Scan().setFilter(filter).setReversed(true));
        }
    }

    private static Scan oneByOne() {
        return new Scan().setCaching(1).addColumn(bytes("a"), bytes("q0"));
    }

    private void scanners(Admin admin, Table table) throws Exception {
        transcript.call("closed early", () -> {
            try (ResultScanner scanner = table.getScanner(new Scan().setCaching(1))) {
                return Arrays.asList(scanner.next(), scanner.next());
            }
        });
        transcript.call("renewed", () -> {
            try (ResultScanner scanner = table.getScanner(new Scan().setCaching(1))) {
                scanner.next();
                return Arrays.asList(scanner.renewLease(), scanner.next());
            }
        });
        transcript.call("writes behind a scanner", () -> {
            try (ResultScanner scanner = table.getScanner(oneByOne())) {
                List<Result> results = new ArrayList<>();
                results.add(scanner.next());
                table.put(new Put(bytes("r1")).addColumn(bytes("a"), bytes("q0"), 30, bytes("later")));
                table.put(new Put(bytes("r4")).addColumn(bytes("a"), bytes("q0"), 30, bytes("later")));
                scanner.forEach(results::add);
                return results;
            }
        });
        transcript.call("regions that open again", () -> {
            try (ResultScanner scanner = table.getScanner(oneByOne())) {
                List<Result> results = new ArrayList<>();
                results.add(scanner.next());
                admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(name))
                        .setValue("purpose", "reopen")
                        .build());
                scanner.forEach(results::add);
                return results;
            }
        });
    }
}
