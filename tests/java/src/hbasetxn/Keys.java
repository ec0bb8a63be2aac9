package hbasetxn;

import io.appform.hbase.ds.RowKeyDistributorByHashPrefix;
import io.appform.hbase.ds.RowKeyDistributorByHashPrefix.OneByteSimpleHash;
import java.nio.charset.StandardCharsets;

/** Row keys of locks and latches: one byte of hash before the logical key. */
final class Keys {
    private static final OneByteSimpleHash HASH = new OneByteSimpleHash(256);
    private static final RowKeyDistributorByHashPrefix DISTRIBUTOR = new RowKeyDistributorByHashPrefix(HASH);

    private Keys() {}

    static byte[] row(byte[] key) {
        return DISTRIBUTOR.getDistributedKey(key);
    }

    static byte[] lock(String level, String farm, String client, String id) {
        String logical;
        switch (level) {
            case "DC":
                logical = String.join("#", "DC", farm, client, id);
                break;
            case "XDC":
                logical = String.join("#", "XDC", client, id);
                break;
            default:
                throw new IllegalArgumentException("level " + level + " is neither DC nor XDC");
        }
        return row(logical.getBytes(StandardCharsets.UTF_8));
    }

    static byte[] latch(String client, String id) {
        return row((client + "_" + id).getBytes(StandardCharsets.UTF_8));
    }

    /** All 256 of them, so that a table has a region for each, and an empty one before them. */
    static byte[][] splitKeys() {
        return HASH.getAllPossiblePrefixes();
    }
}
