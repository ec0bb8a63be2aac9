package hbasetxn;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.filter.BigDecimalComparator;
import org.apache.hadoop.hbase.filter.BinaryComponentComparator;
import org.apache.hadoop.hbase.filter.BitComparator;
import org.apache.hadoop.hbase.filter.ByteArrayComparable;
import org.apache.hadoop.hbase.filter.ColumnPaginationFilter;
import org.apache.hadoop.hbase.filter.ColumnValueFilter;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.filter.FuzzyRowFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.filter.LongComparator;
import org.apache.hadoop.hbase.filter.MultiRowRangeFilter;
import org.apache.hadoop.hbase.filter.MultiRowRangeFilter.RowRange;
import org.apache.hadoop.hbase.filter.NullComparator;
import org.apache.hadoop.hbase.filter.ParseFilter;
import org.apache.hadoop.hbase.filter.RandomRowFilter;
import org.apache.hadoop.hbase.filter.RegexStringComparator;
import org.apache.hadoop.hbase.filter.RegexStringComparator.EngineType;
import org.apache.hadoop.hbase.filter.RowFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.filter.TimestampsFilter;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.util.Pair;

/** The filters of {@code tests/support/src/filters.rs}. */
final class Filters {
    private Filters() {}

    /** Up to three versions of the cells that a filter passes: row, family, qualifier, timestamp and value, in hex. */
    static List<String> scan(Table table, String filter) throws IOException {
        List<String> lines = new ArrayList<>();
        Scan scan = new Scan().readVersions(3).setFilter(named(filter));
        try (ResultScanner scanner = table.getScanner(scan)) {
            for (Result result : scanner) {
                for (Cell cell : result.rawCells()) {
                    lines.add(String.join(
                            "/",
                            Bytes.toHex(CellUtil.cloneRow(cell)),
                            Bytes.toHex(CellUtil.cloneFamily(cell)),
                            Bytes.toHex(CellUtil.cloneQualifier(cell)),
                            Long.toString(cell.getTimestamp()),
                            Bytes.toHex(CellUtil.cloneValue(cell))));
                }
            }
        }
        return lines;
    }

    /** A filter that HBase's language of filters does not have, by its name, or else one in that language. */
    private static Filter named(String filter) throws IOException {
        switch (filter) {
            case "RowComponent":
                return new RowFilter(CompareOperator.EQUAL, new BinaryComponentComparator(bytes("1x"), 1));
            case "MultiRowRange":
                return new MultiRowRangeFilter(Arrays.asList(
                        new RowRange("a2", true, "b1y", false), new RowRange("c", true, "d", false)));
            case "FuzzyRow":
                return new FuzzyRowFilter(Collections.singletonList(fuzzy("?1x", 1, 0, 0)));
            case "FuzzyRowFixed":
                return new FuzzyRowFilter(Collections.singletonList(fuzzy("b2y", 0, 0, 0)));
            case "FuzzyRows":
                return new FuzzyRowFilter(Arrays.asList(fuzzy("??y", 1, 1, 0), fuzzy("c??", 0, 1, 1)));
            case "RandomRow":
                return new RandomRowFilter(1);
            case "ValueLengths":
                return new KeyOnlyFilter(true);
            case "ColumnPageFrom":
                return new ColumnPaginationFilter(1, bytes("b"));
            case "SeekTimestamps":
                return new TimestampsFilter(Collections.singletonList(1L), true);
            case "RegexFlags":
                return value(CompareOperator.EQUAL, new RegexStringComparator("^one$", Pattern.CASE_INSENSITIVE));
            case "RegexCharset": {
                RegexStringComparator regex = new RegexStringComparator("^\\x00{7}");
                regex.setCharset(StandardCharsets.ISO_8859_1);
                return value(CompareOperator.EQUAL, regex);
            }
            case "RegexJoni":
                return value(CompareOperator.EQUAL, new RegexStringComparator("^t.*e", EngineType.JONI));
            case "ValueBits":
                return value(
                        CompareOperator.EQUAL, new BitComparator(new byte[] {8}, BitComparator.BitwiseOp.AND));
            case "ValueNull":
                return value(CompareOperator.NOT_EQUAL, new NullComparator());
            case "ColumnDecimal":
                return new ColumnValueFilter(
                        bytes("g"),
                        bytes("d"),
                        CompareOperator.GREATER,
                        new BigDecimalComparator(new BigDecimal("0.2")));
            case "SingleColumnLong": {
                SingleColumnValueFilter single = new SingleColumnValueFilter(
                        bytes("f"), bytes("n"), CompareOperator.GREATER, new LongComparator(0));
                single.setFilterIfMissing(true);
                return single;
            }
            default:
                return new ParseFilter().parseFilterString(filter);
        }
    }

    private static Filter value(CompareOperator operator, ByteArrayComparable given) {
        return new ValueFilter(operator, given);
    }

    private static Pair<byte[], byte[]> fuzzy(String key, int... mask) {
        byte[] bytes = new byte[mask.length];
        for (int at = 0; at < mask.length; at++) {
            bytes[at] = (byte) mask[at];
        }
        return new Pair<>(bytes(key), bytes);
    }

    private static byte[] bytes(String text) {
        return Bytes.toBytes(text);
    }
}
