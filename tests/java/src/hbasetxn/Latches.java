package hbasetxn;

import java.io.IOException;
import java.util.NavigableMap;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Increment;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/** What the Java latch library does to its table: counts by farm, added to by increments. */
final class Latches {
    static final byte[] FAMILY = Bytes.toBytes("C");

    private Latches() {}

    static void init(Table table, String farm, byte[] row, long count, long ttlSeconds) throws IOException {
        Increment increment = new Increment(row).addColumn(FAMILY, column(farm), count);
        increment.setTTL(ttlSeconds * 1000);
        table.increment(increment);
    }

    /** Up or down: without a TTL of its own. */
    static void count(Table table, String farm, byte[] row, long by) throws IOException {
        table.increment(new Increment(row).addColumn(FAMILY, column(farm), by));
    }

    /** The farm's own count, or all farms' sum; null when there is none. */
    static Long get(Table table, String level, String farm, byte[] row) throws IOException {
        if (level.equals("DC")) {
            byte[] value = table.get(new Get(row).addColumn(FAMILY, column(farm))).getValue(FAMILY, column(farm));
            return value == null ? null : Bytes.toLong(value);
        }
        NavigableMap<byte[], byte[]> counts = table.get(new Get(row).addFamily(FAMILY)).getFamilyMap(FAMILY);
        if (counts == null || counts.isEmpty()) {
            return null;
        }
        return counts.values().stream().mapToLong(Bytes::toLong).sum();
    }

    private static byte[] column(String farm) {
        return Bytes.toBytes("count_" + farm);
    }
}
