package hbasetxn;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Query;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.ParseFilter;
import org.apache.hadoop.hbase.util.Bytes;

/** The gets, scans and mutations of {@code tests/versions/differential}, each a list of options. */
final class Reads {
    private Reads() {}

    /** A line for each cell of each answer, and one behind each answer. */
    static List<String> read(Table table, String[] options) throws IOException {
        List<String> lines = new ArrayList<>();
        String[] first = options[0].split("=", 2);
        if (first[0].equals("scan")) {
            Scan scan = new Scan();
            for (String option : rest(options)) {
                apply(scan, option.split("=", 2));
            }
            try (ResultScanner scanner = table.getScanner(scan)) {
                for (Result result : scanner) {
                    print(result, lines);
                }
            }
            return lines;
        }
        Get get = new Get(Bytes.toBytes(first[1]));
        for (String option : rest(options)) {
            apply(get, option.split("=", 2));
        }
        if (first[0].equals("exists")) {
            lines.add(Boolean.toString(table.exists(get)));
        } else {
            print(table.get(get), lines);
        }
        return lines;
    }

    /** Each option is a cell to put, or what to delete. */
    static void write(Table table, String[] options) throws IOException {
        byte[] row = Bytes.toBytes(options[0]);
        List<Mutation> mutations = new ArrayList<>();
        for (String option : rest(options)) {
            String[] parts = option.split(":", -1);
            byte[] family = Bytes.toBytes(parts[1]);
            byte[] qualifier = Bytes.toBytes(parts[2]);
            long timestamp = Long.parseLong(parts[3]);
            switch (parts[0]) {
                case "put":
                    mutations.add(new Put(row).addColumn(family, qualifier, timestamp, Bytes.toBytes(parts[4])));
                    break;
                case "version":
                    mutations.add(new Delete(row).addColumn(family, qualifier, timestamp));
                    break;
                case "column":
                    mutations.add(new Delete(row).addColumns(family, qualifier, timestamp));
                    break;
                case "family":
                    mutations.add(new Delete(row).addFamily(family, timestamp));
                    break;
                case "family-version":
                    mutations.add(new Delete(row).addFamilyVersion(family, timestamp));
                    break;
                default:
                    mutations.add(new Delete(row, timestamp));
            }
        }
        for (Mutation mutation : mutations) {
            if (mutation instanceof Put) {
                table.put((Put) mutation);
            } else {
                table.delete((Delete) mutation);
            }
        }
    }

    private static List<String> rest(String[] options) {
        return Arrays.asList(options).subList(1, options.length);
    }

    private static void print(Result result, List<String> lines) {
        if (result.isEmpty()) {
            return;
        }
        for (Cell cell : result.rawCells()) {
            lines.add(String.join(
                    "/",
                    Bytes.toStringBinary(CellUtil.cloneRow(cell)),
                    Bytes.toString(CellUtil.cloneFamily(cell)),
                    Bytes.toString(CellUtil.cloneQualifier(cell)),
                    Long.toString(cell.getTimestamp()),
                    Byte.toString(cell.getType().getCode()),
                    Bytes.toStringBinary(CellUtil.cloneValue(cell))));
        }
        lines.add("--");
    }

    private static void apply(Scan scan, String[] option) throws IOException {
        byte[] bytes = Bytes.toBytes(option[1]);
        switch (option[0]) {
            case "start":
                scan.withStartRow(bytes, true);
                return;
            case "start-after":
                scan.withStartRow(bytes, false);
                return;
            case "stop":
                scan.withStopRow(bytes, false);
                return;
            case "stop-with":
                scan.withStopRow(bytes, true);
                return;
            case "reversed":
                scan.setReversed(true);
                return;
            case "limit":
                scan.setLimit(Integer.parseInt(option[1]));
                return;
            case "caching":
                scan.setCaching(Integer.parseInt(option[1]));
                return;
            case "batch":
                scan.setBatch(Integer.parseInt(option[1]));
                return;
            case "bytes":
                scan.setMaxResultSize(Long.parseLong(option[1]));
                return;
            case "raw":
                scan.setRaw(true).readAllVersions();
                return;
            case "family":
                scan.addFamily(bytes);
                return;
            case "column":
                scan.addColumn(bytes(option[1], 0), bytes(option[1], 1));
                return;
            case "versions":
                scan.readVersions(Integer.parseInt(option[1]));
                return;
            case "time":
                scan.setTimeRange(number(option[1], 0), number(option[1], 1));
                return;
            case "cells":
                scan.setMaxResultsPerColumnFamily(Integer.parseInt(option[1]));
                return;
            case "offset":
                scan.setRowOffsetPerColumnFamily(Integer.parseInt(option[1]));
                return;
            default:
                apply((Query) scan, option);
        }
    }

    private static void apply(Get get, String[] option) throws IOException {
        switch (option[0]) {
            case "family":
                get.addFamily(Bytes.toBytes(option[1]));
                return;
            case "column":
                get.addColumn(bytes(option[1], 0), bytes(option[1], 1));
                return;
            case "versions":
                get.readVersions(Integer.parseInt(option[1]));
                return;
            case "time":
                get.setTimeRange(number(option[1], 0), number(option[1], 1));
                return;
            case "cells":
                get.setMaxResultsPerColumnFamily(Integer.parseInt(option[1]));
                return;
            case "offset":
                get.setRowOffsetPerColumnFamily(Integer.parseInt(option[1]));
                return;
            default:
                apply((Query) get, option);
        }
    }

    private static void apply(Query query, String[] option) throws IOException {
        switch (option[0]) {
            case "family-time":
                query.setColumnFamilyTimeRange(bytes(option[1], 0), number(option[1], 1), number(option[1], 2));
                return;
            case "filter":
                query.setFilter(new ParseFilter().parseFilterString(option[1]));
                return;
            default:
                throw new IllegalArgumentException("no option " + option[0]);
        }
    }

    private static byte[] bytes(String text, int part) {
        return Bytes.toBytes(text.split(":", -1)[part]);
    }

    private static long number(String text, int part) {
        return Long.parseLong(text.split(":", -1)[part]);
    }
}
