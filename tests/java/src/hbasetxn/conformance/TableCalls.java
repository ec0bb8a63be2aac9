package hbasetxn.conformance;

import static hbasetxn.conformance.Rows.bytes;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.NamespaceDescriptor;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptor;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptor;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.exceptions.MergeRegionException;
import org.apache.hadoop.hbase.util.Bytes;

/** Calls of the master and of regions as a whole. */
final class TableCalls {
    private final Connection connection;
    private final Transcript transcript;
    private final TableName name;
    private final TableName missing;
    private final String prefix;

    TableCalls(Connection connection, Transcript transcript, String prefix) {
        this.connection = connection;
        this.transcript = transcript;
        this.prefix = prefix;
        name = TableName.valueOf(prefix + "tables");
        missing = TableName.valueOf(prefix + "missing");
    }

    void run() throws Exception {
        try (Admin admin = connection.getAdmin();
                Table table = connection.getTable(name)) {
            lifeOfATable(admin);
            states(admin, table);
            namespaces(admin);
            regions(admin, table);
            flushes(admin, table);
            act("drop", () -> Rows.drop(admin, name));
        }
    }

    private void call(String what, Transcript.Call call) throws InterruptedException {
        transcript.call(what, call);
    }

    private void act(String what, Transcript.Action action) throws InterruptedException {
        transcript.act(what, action);
    }

    private void lifeOfATable(Admin admin) throws Exception {
        // Halves of a region that was split can be merged, and read in reverse, after a compaction.
        TableDescriptor descriptor = Rows.descriptor(name).setCompactionEnabled(true).build();
        call("exists before", () -> admin.tableExists(name));
        act("create", () -> admin.createTable(descriptor, Rows.splitKeys()));
        act("create again", () -> admin.createTable(descriptor));
        act("create without families", () ->
                admin.createTable(TableDescriptorBuilder.newBuilder(missing).build()));
        act("create with a bad policy", () -> admin.createTable(TableDescriptorBuilder.newBuilder(missing)
                .setColumnFamily(ColumnFamilyDescriptorBuilder.of("f"))
                .setRegionSplitPolicyClassName("no.such.Policy")
                .build()));
        act("create in a missing namespace", () -> admin.createTable(
                TableDescriptorBuilder.newBuilder(TableName.valueOf("no_such_namespace", "t"))
                        .setColumnFamily(ColumnFamilyDescriptorBuilder.of("f"))
                        .build()));
        act("create with one split key twice", () -> admin.createTable(
                Rows.descriptor(missing).build(), new byte[][] {bytes("k"), bytes("k")}));
        call("exists", () -> admin.tableExists(name));
        call("enabled", () -> admin.isTableEnabled(name));
        call("disabled", () -> admin.isTableDisabled(name));
        call("available", () -> admin.isTableAvailable(name));
        call("descriptor", () -> describe(admin.getDescriptor(name)));
        call("descriptor of a missing table", () -> describe(admin.getDescriptor(missing)));
        call("descriptors", () -> ours(admin.listTableDescriptors()));
        call("descriptors by name", () -> ours(admin.listTableDescriptors(Arrays.asList(name, missing))));
        call("names", () -> {
            List<String> names = new ArrayList<>();
            for (TableName table : admin.listTableNames()) {
                if (table.getNameAsString().startsWith(prefix)) {
                    names.add(table.getNameAsString());
                }
            }
            return names;
        });
    }

    private void states(Admin admin, Table table) throws Exception {
        Put put = new Put(bytes("r1")).addColumn(bytes("a"), bytes("q"), 5, bytes("v"));
        act("put", () -> table.put(put));
        act("delete enabled", () -> admin.deleteTable(name));
        act("enable enabled", () -> admin.enableTable(name));
        act("disable", () -> admin.disableTable(name));
        act("disable disabled", () -> admin.disableTable(name));
        call("enabled", () -> admin.isTableEnabled(name));
        call("disabled", () -> admin.isTableDisabled(name));
        call("available", () -> admin.isTableAvailable(name));
        call("get of a disabled table", () -> table.get(new Get(bytes("r1"))));
        act("put to a disabled table", () -> table.put(put));
        call("scan of a disabled table", () -> Rows.all(table, new Scan()));
        act("flush a disabled table", () -> admin.flush(name));
        act("change disabled", () -> admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(name))
                .setColumnFamily(ColumnFamilyDescriptorBuilder.of("new"))
                .setValue("purpose", "conformance")
                .build()));
        act("enable", () -> admin.enableTable(name));
        call("descriptor", () -> describe(admin.getDescriptor(name)));
        call("get", () -> table.get(new Get(bytes("r1"))));
        act("put to the new family", () ->
                table.put(new Put(bytes("r1")).addColumn(bytes("new"), bytes("q"), 6, bytes("n"))));
        act("change enabled", () -> admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(name))
                .removeColumnFamily(bytes("new"))
                .build()));
        call("get", () -> table.get(new Get(bytes("r1"))));
        act("put to a removed family", () ->
                table.put(new Put(bytes("r1")).addColumn(bytes("new"), bytes("q"), 6, bytes("n"))));
        act("change missing", () -> admin.modifyTable(Rows.descriptor(missing).build()));
        act("delete missing", () -> admin.deleteTable(missing));
        act("disable missing", () -> admin.disableTable(missing));
        act("enable missing", () -> admin.enableTable(missing));
        call("enabled missing", () -> admin.isTableEnabled(missing));
        try (Table none = connection.getTable(missing)) {
            call("get of a missing table", () -> none.get(new Get(bytes("r1"))));
            act("put to a missing table", () -> none.put(put));
            call("scan of a missing table", () -> Rows.all(none, new Scan()));
        }
    }

    private void namespaces(Admin admin) throws Exception {
        call("namespace default", () -> admin.getNamespaceDescriptor("default").getName());
        call("missing namespace", () -> admin.getNamespaceDescriptor("no_such_namespace").getName());
        act("create namespace again", () -> admin.createNamespace(NamespaceDescriptor.create("default").build()));
        call("namespaces", () -> {
            List<String> names = new ArrayList<>();
            for (NamespaceDescriptor namespace : admin.listNamespaceDescriptors()) {
                names.add(namespace.getName());
            }
            names.retainAll(Arrays.asList("default", "hbase"));
            Collections.sort(names);
            return names;
        });
    }

    private void regions(Admin admin, Table table) throws Exception {
        for (int row = 0; row < 9; row++) {
            table.put(new Put(bytes("r" + row)).addColumn(bytes("m"), bytes("q"), 7, bytes("v" + row)));
        }
        call("regions", () -> ranges(admin));
        call("locations", this::locations);
        call("region of r4", () -> region("r4").getStartKey());
        call("servers", () -> admin.getRegionServers().size());
        call("splits", () -> admin.isSplitEnabled());
        call("merges", () -> admin.isMergeEnabled());
        act("split", () -> admin.splitRegionAsync(region("r4").getRegionName(), bytes("r5")).get());
        call("regions", () -> ranges(admin));
        call("scan", () -> Rows.all(table, new Scan()));
        act("split at the start", () -> admin.splitRegionAsync(region("r5").getRegionName(), bytes("r5")).get());
        act("split at a row of another region", () ->
                admin.splitRegionAsync(region("r5").getRegionName(), bytes("r0")).get());
        act("merge of regions apart", () -> admin.mergeRegionsAsync(new byte[][] {
            region("r0").getEncodedNameAsBytes(), region("r8").getEncodedNameAsBytes()}, false).get());
        act("merge of one region", () -> admin.mergeRegionsAsync(new byte[][] {
            region("r0").getEncodedNameAsBytes()}, false).get());
        act("merge", () -> merge(admin, "r5", "r4"));
        call("regions", () -> ranges(admin));
        call("scan", () -> Rows.all(table, new Scan()));
        act("move", () -> move(admin, "r4"));
        call("scan", () -> Rows.all(table, new Scan()));
        act("move to where it is", () -> admin.move(region("r4").getEncodedNameAsBytes(), server("r4")));
        act("move a missing region", () -> admin.move(bytes("0123456789abcdef0123456789abcdef"), server("r4")));
        call("reversed scan", () -> Rows.all(table, new Scan().setReversed(true)));
    }

    private void flushes(Admin admin, Table table) throws Exception {
        act("forbid compactions", () -> compactions(admin, false));
        act("put", () -> table.put(new Put(bytes("r1")).addColumn(bytes("a"), bytes("q"), 8, bytes("newer"))));
        act("put below", () -> table.put(new Put(bytes("r1")).addColumn(bytes("a"), bytes("q"), 4, bytes("older"))));
        call("raw", () -> Rows.all(table, raw("r1", "r2")));
        act("flush", () -> admin.flushRegion(region("r1").getRegionName()));
        call("raw", () -> Rows.all(table, raw("r1", "r2")));
        act("delete version", () -> table.delete(new Delete(bytes("r1")).addColumn(bytes("a"), bytes("q"))));
        call("raw", () -> Rows.all(table, raw("r1", "r2")));
        act("compact, which the table forbids", () -> admin.compactRegion(region("r1").getRegionName()));
        act("major compaction, which the table forbids", () ->
                admin.majorCompactRegion(region("r1").getRegionName()));
        call("raw", () -> Rows.all(table, raw("r1", "r2")));
        act("allow compactions", () -> compactions(admin, true));
        act("flush", () -> admin.flushRegion(region("r1").getRegionName()));
        act("major compaction", () -> {
            admin.majorCompactRegion(region("r1").getRegionName());
            // Servers answer before they compact, which removes the marker.
            for (int round = 0; round < 500 && hasMarker(table); round++) {
                Thread.sleep(20);
            }
        });
        call("raw", () -> Rows.all(table, raw("r0", "r3")));
        act("flush table", () -> admin.flush(name));
        act("flush a missing table", () -> admin.flush(missing));
        act("flush a missing region", () -> admin.flushRegion(bytes("0123456789abcdef0123456789abcdef")));
    }

    private void compactions(Admin admin, boolean enabled) throws IOException {
        admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(name))
                .setCompactionEnabled(enabled)
                .build());
    }

    private static boolean hasMarker(Table table) throws IOException {
        return Rows.all(table, raw("r1", "r2")).toString().contains("/Delete");
    }

    private static Scan raw(String from, String to) {
        return new Scan().withStartRow(bytes(from)).withStopRow(bytes(to)).setRaw(true).readAllVersions();
    }

    private RegionInfo region(String row) throws IOException {
        try (RegionLocator locator = connection.getRegionLocator(name)) {
            return locator.getRegionLocation(bytes(row), true).getRegion();
        }
    }

    private ServerName server(String row) throws IOException {
        try (RegionLocator locator = connection.getRegionLocator(name)) {
            return locator.getRegionLocation(bytes(row), true).getServerName();
        }
    }

    /** Merges regions as soon as they are compacted. */
    private void merge(Admin admin, String one, String other) throws Exception {
        byte[][] regions = {region(one).getEncodedNameAsBytes(), region(other).getEncodedNameAsBytes()};
        for (int attempt = 0; attempt < 100; attempt++) {
            try {
                admin.mergeRegionsAsync(regions, false).get();
                return;
            } catch (ExecutionException error) {
                if (!(error.getCause() instanceof MergeRegionException)) {
                    throw error;
                }
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("the regions are never compacted");
    }

    /** Moves a region to any other server, if there is one. */
    private void move(Admin admin, String row) throws IOException {
        for (ServerName server : admin.getRegionServers()) {
            if (!server.equals(server(row))) {
                admin.move(region(row).getEncodedNameAsBytes(), server);
                return;
            }
        }
    }

    private List<String> ranges(Admin admin) throws IOException {
        List<String> ranges = new ArrayList<>();
        for (RegionInfo region : admin.getRegions(name)) {
            ranges.add(range(region));
        }
        return ranges;
    }

    private List<String> locations() throws IOException {
        List<String> ranges = new ArrayList<>();
        try (RegionLocator locator = connection.getRegionLocator(name)) {
            for (HRegionLocation location : locator.getAllRegionLocations()) {
                String server = location.getServerName() == null ? "none" : "one";
                ranges.add(range(location.getRegion()) + " on " + server);
            }
        }
        return ranges;
    }

    private static String range(RegionInfo region) {
        String keys = Bytes.toString(region.getStartKey()) + "-" + Bytes.toString(region.getEndKey());
        return region.isSplit() ? keys + " split" : keys;
    }

    private List<String> ours(List<TableDescriptor> descriptors) {
        List<String> ours = new ArrayList<>();
        for (TableDescriptor descriptor : descriptors) {
            if (descriptor.getTableName().getNameAsString().startsWith(prefix)) {
                ours.add(descriptor.getTableName() + " " + describe(descriptor));
            }
        }
        return ours;
    }

    private static String describe(TableDescriptor descriptor) {
        TreeMap<String, String> all = new TreeMap<>();
        descriptor.getValues().forEach((key, value) ->
                all.put(Bytes.toString(key.copyBytes()), Bytes.toString(value.copyBytes())));
        for (ColumnFamilyDescriptor family : descriptor.getColumnFamilies()) {
            family.getValues().forEach((key, value) -> all.put(
                    family.getNameAsString() + "." + Bytes.toString(key.copyBytes()),
                    Bytes.toString(value.copyBytes())));
            family.getConfiguration().forEach((key, value) -> all.put(family.getNameAsString() + "." + key, value));
        }
        return all.toString();
    }
}
