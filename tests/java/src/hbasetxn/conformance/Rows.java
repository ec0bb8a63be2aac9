package hbasetxn.conformance;

import com.google.protobuf.ServiceException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Delete;
import org.apache.hadoop.hbase.client.Mutation;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;
import org.apache.hadoop.hbase.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.protobuf.generated.ClientProtos.MutationProto.MutationType;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.MultiRowMutationService;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.MutateRowsRequest;
import org.apache.hadoop.hbase.util.Bytes;

/** What all groups of calls need. */
final class Rows {
    private static final String ENDPOINT = "org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint";

    private Rows() {}

    static byte[] bytes(String text) {
        return Bytes.toBytes(text);
    }

    /**
     * A table with three families, of 1, 2 and 1,000 versions, and three regions. Servers do not compact it by
     * themselves, because a compaction shows in later answers.
     */
    static TableDescriptorBuilder descriptor(TableName table) throws IOException {
        return TableDescriptorBuilder.newBuilder(table)
                .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(bytes("a")).setMaxVersions(1).build())
                .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(bytes("b")).setMaxVersions(2).build())
                .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(bytes("m")).setMaxVersions(1_000).build())
                .setCompactionEnabled(false)
                .setCoprocessor(ENDPOINT);
    }

    static byte[][] splitKeys() {
        return new byte[][] {bytes("r3"), bytes("r6")};
    }

    static void drop(Admin admin, TableName table) throws IOException {
        admin.disableTable(table);
        admin.deleteTable(table);
    }

    static List<Result> all(Table table, Scan scan) throws IOException {
        List<Result> results = new ArrayList<>();
        try (ResultScanner scanner = table.getScanner(scan)) {
            for (Result result : scanner) {
                results.add(result);
            }
        }
        return results;
    }

    /** Changes several rows of a region by the endpoint. */
    static Object mutateTogether(Table table, byte[] row, List<Mutation> mutations) throws IOException {
        MutateRowsRequest.Builder request = MutateRowsRequest.newBuilder();
        for (Mutation mutation : mutations) {
            MutationType type = mutation instanceof Delete ? MutationType.DELETE : MutationType.PUT;
            request.addMutationRequest(ProtobufUtil.toMutation(type, mutation));
        }
        try {
            return MultiRowMutationService.newBlockingStub(table.coprocessorService(row))
                    .mutateRows(null, request.build())
                    .getSerializedSize();
        } catch (ServiceException error) {
            throw ProtobufUtil.handleRemoteException(error);
        }
    }
}
