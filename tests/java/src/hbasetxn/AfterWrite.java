package hbasetxn;

import java.io.IOException;
import java.util.Optional;
import org.apache.hadoop.hbase.DoNotRetryIOException;
import org.apache.hadoop.hbase.NotServingRegionException;
import org.apache.hadoop.hbase.client.Durability;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.coprocessor.ObserverContext;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessor;
import org.apache.hadoop.hbase.coprocessor.RegionCoprocessorEnvironment;
import org.apache.hadoop.hbase.coprocessor.RegionObserver;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.hbase.wal.WALEdit;

/** A coprocessor that fails puts after they were applied, with the exception that their row names. */
public final class AfterWrite implements RegionCoprocessor, RegionObserver {
    @Override
    public Optional<RegionObserver> getRegionObserver() {
        return Optional.of(this);
    }

    @Override
    public void postPut(
            ObserverContext<RegionCoprocessorEnvironment> context, Put put, WALEdit edit, Durability durability)
            throws IOException {
        String row = Bytes.toString(put.getRow());
        if (row.endsWith("own")) {
            throw new Own();
        }
        if (row.endsWith("plain")) {
            throw new DoNotRetryIOException("after the write");
        }
        if (row.endsWith("unserved")) {
            throw new NotServingRegionException("a region of another table");
        }
    }

    /** A class that no client knows. */
    private static final class Own extends DoNotRetryIOException {
        private static final long serialVersionUID = 1;

        Own() {
            super("after the write");
        }
    }
}
