package hbasetxn.conformance;

import static hbasetxn.conformance.Rows.bytes;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.hadoop.hbase.CompareOperator;
import org.apache.hadoop.hbase.client.Append;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Row;
import org.apache.hadoop.hbase.client.RowMutations;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.filter.BinaryComparator;
import org.apache.hadoop.hbase.filter.ColumnPrefixFilter;
import org.apache.hadoop.hbase.filter.Filter;
import org.apache.hadoop.hbase.filter.FilterList;
import org.apache.hadoop.hbase.filter.FirstKeyOnlyFilter;
import org.apache.hadoop.hbase.filter.KeyOnlyFilter;
import org.apache.hadoop.hbase.filter.PageFilter;
import org.apache.hadoop.hbase.filter.QualifierFilter;
import org.apache.hadoop.hbase.filter.SingleColumnValueFilter;
import org.apache.hadoop.hbase.filter.SubstringComparator;
import org.apache.hadoop.hbase.filter.ValueFilter;
import org.apache.hadoop.hbase.io.TimeRange;

/** Random requests for rows of a few names, which all follow from a seed. */
final class Choices {
    static final int ROWS = 9;
    /** All but {@code NO_OP}, which servers refuse again and again. */
    static final CompareOperator[] OPERATORS = {
        CompareOperator.EQUAL, CompareOperator.NOT_EQUAL, CompareOperator.LESS, CompareOperator.LESS_OR_EQUAL,
        CompareOperator.GREATER, CompareOperator.GREATER_OR_EQUAL,
    };
    private static final String[] QUALIFIERS = {"", "p", "pq", "q", "x"};
    private static final String[] VALUES = {"", "0", "1", "x", "xyz"};

    private final Random random;
    /** Whether regions move, so that only requests are made whose answers do not depend on when. */
    private final boolean moving;
    private final String[] families;

    Choices(long seed, boolean moving, String... families) {
        random = new Random(seed);
        this.moving = moving;
        this.families = families;
    }

    int below(int bound) {
        return random.nextInt(bound);
    }

    private boolean onceIn(int times) {
        return random.nextInt(times) == 0;
    }

    private byte[] of(String... all) {
        return bytes(all[random.nextInt(all.length)]);
    }

    byte[] row() {
        return bytes("r" + random.nextInt(ROWS));
    }

    private byte[] family() {
        return onceIn(60) ? bytes("zz") : of(families);
    }

    private byte[] qualifier() {
        return of(QUALIFIERS);
    }

    private byte[] value() {
        return of(VALUES);
    }

    private long timestamp() {
        return 1 + random.nextInt(30);
    }

    Mutation mutation(byte[] row) {
        return onceIn(3) ? addition(row) : write(row);
    }

    private Mutation write(byte[] row) {
        return onceIn(4) ? delete(row) : put(row);
    }

    private Mutation addition(byte[] row) {
        return onceIn(2) ? increment(row) : append(row);
    }

    Put put(byte[] row) {
        Put put = new Put(row);
        for (int cells = 1 + random.nextInt(3); cells > 0; cells--) {
            if (onceIn(3)) {
                put.addColumn(family(), qualifier(), timestamp(), value());
            } else {
                put.addColumn(family(), qualifier(), value());
            }
        }
        if (onceIn(10)) {
            put.setTTL(3_600_000);
        }
        put.setDurability(Durability.values()[random.nextInt(Durability.values().length)]);
        return put;
    }

    Delete delete(byte[] row) {
        Delete delete = new Delete(row);
        byte[] family = family();
        switch (random.nextInt(7)) {
            case 0:
                return delete;
            case 1:
                return delete.addFamily(family);
            case 2:
                return delete.addFamilyVersion(family, timestamp());
            case 3:
                return delete.addColumns(family, qualifier());
            case 4:
                return delete.addColumn(family, qualifier());
            case 5:
                return delete.addColumn(family, qualifier(), timestamp());
            default:
                return delete.addColumns(family, qualifier(), timestamp());
        }
    }

    /** Numbers have a column of their own, but sometimes another is taken. */
    private Increment increment(byte[] row) {
        byte[] column = onceIn(20) ? qualifier() : bytes("n");
        Increment increment = new Increment(row).addColumn(family(), column, below(9) - 4);
        return increment.setReturnResults(!onceIn(4));
    }

    private Append append(byte[] row) {
        return new Append(row).addColumn(family(), qualifier(), value()).setReturnResults(!onceIn(4));
    }

    RowMutations mutations(byte[] row) throws IOException {
        List<Mutation> mutations = new ArrayList<>();
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
            mutations.add(mutation(row));
        }
        return RowMutations.of(mutations);
    }

    /** Of one kind: HBase gives the puts of a check their time earlier than its increments and appends. */
    private RowMutations checked(byte[] row) throws IOException {
        boolean additions = onceIn(3);
        List<Mutation> mutations = new ArrayList<>();
        for (int count = 1 + random.nextInt(3); count > 0; count--) {
            mutations.add(additions ? addition(row) : write(row));
        }
        return RowMutations.of(mutations);
    }

    CheckAndMutate checkAndMutate(byte[] row) throws IOException {
        CheckAndMutate.Builder builder = CheckAndMutate.newBuilder(row);
        switch (random.nextInt(4)) {
            case 0:
                builder.ifNotExists(family(), qualifier());
                break;
            case 1:
                builder.ifEquals(family(), qualifier(), value());
                break;
            case 2:
                builder.ifMatches(family(), qualifier(), operator(), value());
                break;
            default:
                builder.ifMatches(filter());
        }
        if (onceIn(8)) {
            builder.timeRange(TimeRange.between(timestamp(), 40));
        }
        switch (random.nextInt(5)) {
            case 0:
                return builder.build(delete(row));
            case 1:
                return builder.build(increment(row));
            case 2:
                return builder.build(append(row));
            case 3:
                return builder.build(checked(row));
            default:
                return builder.build(put(row));
        }
    }

    /** A batch of different rows: parts for one row may or may not be in the same millisecond. */
    List<Row> batch() throws IOException {
        List<Row> batch = new ArrayList<>();
        int first = below(ROWS);
        for (int count = 1 + below(4); count > 0; count--) {
            byte[] row = bytes("r" + (first + count) % ROWS);
            switch (random.nextInt(5)) {
                case 0:
                    batch.add(get(row));
                    break;
                case 1:
                    batch.add(mutations(row));
                    break;
                case 2:
                    batch.add(checkAndMutate(row));
                    break;
                default:
                    batch.add(mutation(row));
            }
        }
        return batch;
    }

    /** Puts and deletes of rows in one region. */
    List<Mutation> together(byte[] row) {
        List<Mutation> mutations = new ArrayList<>();
        int region = (row[1] - '0') / 3;
        for (int count = 1 + below(3); count > 0; count--) {
            byte[] other = bytes("r" + (region * 3 + below(3)));
            mutations.add(write(other));
        }
        return mutations;
    }

    Get get(byte[] row) throws IOException {
        Get get = new Get(row).readVersions(1 + below(4));
        for (int columns = below(3); columns > 0; columns--) {
            get = onceIn(3) ? get.addFamily(family()) : get.addColumn(family(), qualifier());
        }
        switch (random.nextInt(6)) {
            case 0:
                return get.setFilter(filter());
            case 1:
                return get.setTimeRange(timestamp(), 31);
            case 2:
                return get.setMaxResultsPerColumnFamily(1 + below(3)).setRowOffsetPerColumnFamily(below(2));
            case 3:
                return get.setCheckExistenceOnly(true);
            default:
                return get;
        }
    }

    Scan scan() throws IOException {
        Scan scan = new Scan().readVersions(1 + below(4)).setCaching(1 + below(4));
        boolean reversed = onceIn(4);
        String low = "r" + below(ROWS);
        String high = "r" + below(ROWS + 1);
        scan.setReversed(reversed);
        if (onceIn(2)) {
            scan.withStartRow(bytes(reversed ? high : low), !onceIn(4));
            scan.withStopRow(bytes(reversed ? low : high), onceIn(4));
        }
        for (int columns = below(3); columns > 0; columns--) {
            scan = onceIn(3) ? scan.addFamily(family()) : scan.addColumn(family(), qualifier());
        }
        if (onceIn(4)) {
            scan.setLimit(1 + below(5));
        }
        if (onceIn(5)) {
            scan.setMaxResultSize(1 + below(300));
        }
        switch (random.nextInt(6)) {
            case 0:
                return scan.setFilter(filter());
            case 1:
                return scan.setTimeRange(timestamp(), 31);
            case 2:
                return scan.setMaxResultsPerColumnFamily(1 + below(3));
            case 3:
                // A client that begins again within a row counts that row against the limit twice.
                return scan.setLimit(moving ? -1 : scan.getLimit()).setBatch(1 + below(3));
            default:
                return scan;
        }
    }

    private CompareOperator operator() {
        return OPERATORS[below(OPERATORS.length)];
    }

    private Filter filter() {
        switch (random.nextInt(9)) {
            case 0:
                return new ValueFilter(operator(), new BinaryComparator(value()));
            case 1:
                return new QualifierFilter(operator(), new BinaryComparator(qualifier()));
            case 2:
                return new FirstKeyOnlyFilter();
            case 3:
                return new KeyOnlyFilter(onceIn(2));
            case 4:
                // It passes over markers of families, so it shows masked cells that no flush has dropped.
                return moving ? new KeyOnlyFilter() : new ColumnPrefixFilter(bytes("p"));
            case 5:
                return new PageFilter(1 + below(3));
            case 6:
                return new ValueFilter(CompareOperator.EQUAL, new SubstringComparator("x"));
            case 7: {
                FilterList.Operator both = onceIn(2)
                        ? FilterList.Operator.MUST_PASS_ALL
                        : FilterList.Operator.MUST_PASS_ONE;
                return new FilterList(both, filter(), filter());
            }
            default: {
                SingleColumnValueFilter filter =
                        new SingleColumnValueFilter(of(families), qualifier(), operator(), value());
                filter.setFilterIfMissing(onceIn(2));
                filter.setLatestVersionOnly(!onceIn(3));
                return filter;
            }
        }
    }
}
