package hbasetxn;

import java.io.IOException;
import org.apache.hadoop.hbase.client.CheckAndMutate;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * What the Java lock library does to its table, its weaknesses included: the client's clock stamps the lock, and a
 * release deletes the row, whoever holds it.
 */
final class Locks {
    static final byte[] FAMILY = Bytes.toBytes("D");
    private static final byte[] QUALIFIER = Bytes.toBytes("L");
    private static final byte[] HELD = Bytes.toBytes("M");

    private Locks() {}

    /** Acquires the lock with a marker of this timestamp, which is the time of the client's clock. */
    static boolean acquire(Table table, byte[] row, long ttlSeconds, long stamp) throws IOException {
        Put put = new Put(row, stamp);
        put.addColumn(FAMILY, QUALIFIER, HELD);
        put.setTTL(ttlSeconds * 1000);
        CheckAndMutate ifAbsent = CheckAndMutate.newBuilder(row).ifNotExists(FAMILY, QUALIFIER).build(put);
        return table.checkAndMutate(ifAbsent).isSuccess();
    }

    static void release(Table table, byte[] row) throws IOException {
        table.delete(new Delete(row));
    }
}
