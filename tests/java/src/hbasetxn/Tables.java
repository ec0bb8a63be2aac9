package hbasetxn;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.io.compress.Compression;
import org.apache.hadoop.hbase.util.Bytes;

/** Tables as the Java libraries make them. */
final class Tables {
    private Tables() {}

    static void createForLocks(Admin admin, TableName table) throws IOException {
        create(admin, table, family(Locks.FAMILY).setMaxVersions(1).build());
    }

    static void createForLatches(Admin admin, TableName table) throws IOException {
        create(admin, table, family(Latches.FAMILY).build());
    }

    private static ColumnFamilyDescriptorBuilder family(byte[] name) {
        return ColumnFamilyDescriptorBuilder.newBuilder(name).setCompressionType(Compression.Algorithm.GZ);
    }

    private static void create(Admin admin, TableName table, ColumnFamilyDescriptor family) throws IOException {
        TableDescriptor descriptor = TableDescriptorBuilder.newBuilder(table).setColumnFamily(family).build();
        admin.createTable(descriptor, Keys.splitKeys());
    }

    /** All attributes, of the table and of its families, and the start keys of its regions. */
    static Map<String, Object> describe(Admin admin, TableName table) throws IOException {
        TableDescriptor descriptor = admin.getDescriptor(table);
        Map<String, Object> families = new LinkedHashMap<>();
        for (ColumnFamilyDescriptor family : descriptor.getColumnFamilies()) {
            Map<String, String> attributes = new TreeMap<>();
            family.getValues().forEach((key, value) ->
                    attributes.put(Bytes.toString(key.copyBytes()), Bytes.toString(value.copyBytes())));
            attributes.putAll(family.getConfiguration());
            families.put(family.getNameAsString(), attributes);
        }
        Map<String, String> attributes = new TreeMap<>();
        descriptor.getValues().forEach((key, value) ->
                attributes.put(Bytes.toString(key.copyBytes()), Bytes.toString(value.copyBytes())));
        List<String> startKeys = new ArrayList<>();
        for (RegionInfo region : admin.getRegions(table)) {
            startKeys.add(Bytes.toHex(region.getStartKey()));
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("families", families);
        found.put("attributes", attributes);
        found.put("start_keys", startKeys);
        return found;
    }
}
