package hbasetxn.conformance;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.HRegionLocation;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.RegionLocator;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/** A thread that moves a table's regions, or opens them again if there is only one server. */
final class Mover implements AutoCloseable {
    private static final long PAUSE = 50;

    private final Connection connection;
    private final TableName table;
    private final Thread thread = new Thread(this::work, "mover");
    private volatile boolean stopped;
    private volatile Exception failure;
    private volatile int rounds;

    Mover(Connection connection, TableName table) {
        this.connection = connection;
        this.table = table;
        thread.setDaemon(true);
        thread.start();
    }

    /** Waits for the present round, and returns whether there was one. */
    Object stop() throws Exception {
        stopped = true;
        thread.join();
        if (failure != null) {
            throw failure;
        }
        return rounds > 0;
    }

    @Override
    public void close() {
        stopped = true;
    }

    private void work() {
        try (Admin admin = connection.getAdmin();
                RegionLocator locator = connection.getRegionLocator(table)) {
            while (!stopped) {
                Thread.sleep(PAUSE);
                List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
                if (servers.size() > 1) {
                    List<HRegionLocation> regions = locator.getAllRegionLocations();
                    HRegionLocation region = regions.get(rounds % regions.size());
                    servers.remove(region.getServerName());
                    admin.move(region.getRegion().getEncodedNameAsBytes(), servers.get(rounds % servers.size()));
                } else {
                    admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(table))
                            .setValue("round", Integer.toString(rounds))
                            .build());
                }
                rounds++;
            }
        } catch (Exception error) {
            failure = error;
        }
    }
}
