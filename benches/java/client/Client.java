import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AdvancedScanResultConsumer;
import org.apache.hadoop.hbase.client.AsyncBufferedMutator;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.AsyncTable;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.protobuf.generated.ClientProtos.MutationProto.MutationType;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.MultiRowMutationService;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.MutateRowsRequest;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.MutateRowsResponse;
import org.apache.hadoop.hbase.util.VersionInfo;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hbase.thirdparty.com.google.gson.Gson;

/**
 * HBase's own asynchronous client, measured beside another client.
 *
 * <p>Arguments: a setting of the client that says where the cluster is, {@code name=value}, the table to read, and the table to
 * write. The first line of stdout is the version. Then a request is a line of stdin, its answer is a line of stdout, both objects of JSON. The end of
 * stdin ends the program.
 */
public final class Client {
    private static final byte[] FAMILY = {'f'};
    private static final byte[] QUALIFIER = {'q'};
    private static final byte[] VALUE = new byte[100];
    /** The mutator has no limit of its own. This is several of its buffers of 2 MB. */
    private static final int ROWS_IN_FLIGHT = 32_000;

    static {
        Arrays.fill(VALUE, (byte) 'v');
    }

    private static final class Request {
        String operation;
        int outstanding;
        int rows;
        int partitions;
        int rows_of_partition;
        double seconds;
    }

    private static final class Answer {
        long done;
        double seconds;
        Double p50;
        Double p99;
        String error;
    }

    private final AsyncConnection connection;
    private final AsyncTable<AdvancedScanResultConsumer> reads;
    private final AsyncTable<AdvancedScanResultConsumer> writes;

    private Client(AsyncConnection connection, String reads, String writes) {
        this.connection = connection;
        this.reads = connection.getTable(TableName.valueOf(reads));
        this.writes = connection.getTable(TableName.valueOf(writes));
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        // A library that prints must not be taken for an answer.
        System.setOut(System.err);
        Configuration configuration = HBaseConfiguration.create();
        String[] setting = arguments[0].split("=", 2);
        configuration.set(setting[0], setting[1]);
        String authentication = configuration.get("hbase.security.authentication", "simple");
        configuration.set("hadoop.security.authentication", authentication);
        UserGroupInformation.setConfiguration(configuration);
        Gson json = new Gson();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (AsyncConnection connection = ConnectionFactory.createAsyncConnection(configuration).get()) {
            Client client = new Client(connection, arguments[1], arguments[2]);
            answers.println("HBase " + VersionInfo.getVersion() + ", " + System.getProperty("java.vm.name") + " "
                    + System.getProperty("java.version"));
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                Answer answer;
                try {
                    answer = client.perform(json.fromJson(line, Request.class));
                } catch (Exception error) {
                    answer = new Answer();
                    answer.error = error.toString();
                }
                answers.println(json.toJson(answer));
            }
        }
        // Threads of the client may be left over.
        System.exit(0);
    }

    private Answer perform(Request request) throws Exception {
        switch (request.operation) {
            case "connect":
                return repeat(request, 1, this::connect);
            case "get":
                return repeat(request, 1, task -> reads.get(new Get(task.row())).thenAccept(Client::checkFound));
            case "get-many":
                return repeat(request, request.rows, task -> {
                    List<Get> gets = new ArrayList<>(request.rows);
                    for (int i = 0; i < request.rows; i++) {
                        gets.add(new Get(task.row()));
                    }
                    return reads.getAll(gets).thenAccept(results -> results.forEach(Client::checkFound));
                });
            case "put":
                return repeat(request, 1, task -> writes.put(put(task.row())));
            case "commit":
                return repeat(request, 1, this::commit);
            case "bulk":
                return bulk(request);
            case "scan":
                return scan(request);
            default:
                throw new IllegalArgumentException(request.operation);
        }
    }

    /** Reads a row by a client of its own. */
    private CompletableFuture<Void> connect(Task task) {
        return ConnectionFactory.createAsyncConnection(connection.getConfiguration()).thenCompose(own ->
                own.getTable(reads.getName()).get(new Get(task.row())).thenAccept(Client::checkFound)
                        // A thread of the client must not close it.
                        .whenCompleteAsync((nothing, error) -> close(own)));
    }

    private static void close(AsyncConnection connection) {
        try {
            connection.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private CompletableFuture<MutateRowsResponse> commit(Task task) {
        int partition = task.partition();
        MutateRowsRequest.Builder builder = MutateRowsRequest.newBuilder();
        try {
            for (int i = 0; i < task.request.rows; i++) {
                Put put = put(row(partition, task.index * task.request.rows + i));
                builder.addMutationRequest(ProtobufUtil.toMutation(MutationType.PUT, put));
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        MutateRowsRequest mutations = builder.build();
        return writes.<MultiRowMutationService, MutateRowsResponse>coprocessorService(
                MultiRowMutationService::newStub,
                (stub, controller, done) -> stub.mutateRows(controller, mutations, done),
                row(partition, 0));
    }

    private Answer bulk(Request request) throws Exception {
        Semaphore free = new Semaphore(ROWS_IN_FLIGHT);
        CompletableFuture<Void> failure = new CompletableFuture<>();
        Answer answer = new Answer();
        long began = System.nanoTime();
        long until = began + (long) (request.seconds * 1e9);
        try (AsyncBufferedMutator mutator = connection.getBufferedMutator(writes.getName())) {
            while (System.nanoTime() < until && !failure.isDone()) {
                int partition = (int) (answer.done % request.partitions);
                int number = (int) (answer.done / request.partitions % request.rows_of_partition);
                free.acquire();
                mutator.mutate(put(row(partition, number))).whenComplete((nothing, error) -> {
                    if (error != null) {
                        failure.completeExceptionally(error);
                    }
                    free.release();
                });
                answer.done++;
            }
            mutator.flush();
            free.acquire(ROWS_IN_FLIGHT);
        }
        failure.complete(null);
        failure.get();
        answer.seconds = (System.nanoTime() - began) / 1e9;
        return answer;
    }

    private Answer scan(Request request) throws Exception {
        Answer answer = new Answer();
        long began = System.nanoTime();
        long until = began + (long) (request.seconds * 1e9);
        while (System.nanoTime() < until) {
            CompletableFuture<Void> ended = new CompletableFuture<>();
            reads.scan(new Scan(), new AdvancedScanResultConsumer() {
                @Override
                public void onNext(Result[] results, ScanController controller) {
                    answer.done += results.length;
                    if (System.nanoTime() >= until) {
                        controller.terminate();
                    }
                }

                @Override
                public void onError(Throwable error) {
                    ended.completeExceptionally(error);
                }

                @Override
                public void onComplete() {
                    ended.complete(null);
                }
            });
            ended.get();
        }
        answer.seconds = (System.nanoTime() - began) / 1e9;
        return answer;
    }

    /** Keeps as many calls in flight as requested: the completion of one sends the next. */
    private static Answer repeat(Request request, int rowsOfCall, Function<Task, CompletableFuture<?>> call)
            throws Exception {
        long began = System.nanoTime();
        long until = began + (long) (request.seconds * 1e9);
        Task[] tasks = new Task[request.outstanding];
        for (int index = 0; index < tasks.length; index++) {
            tasks[index] = new Task(request, index, until, call);
        }
        for (Task task : tasks) {
            task.send();
        }
        int count = 0;
        for (Task task : tasks) {
            task.ended.get();
            count += task.count;
        }
        Answer answer = new Answer();
        answer.seconds = (System.nanoTime() - began) / 1e9;
        answer.done = (long) count * rowsOfCall;
        long[] nanos = new long[count];
        int filled = 0;
        for (Task task : tasks) {
            System.arraycopy(task.nanos, 0, nanos, filled, task.count);
            filled += task.count;
        }
        Arrays.sort(nanos);
        answer.p50 = nanos[count / 2] / 1e3;
        answer.p99 = nanos[(int) (count * 0.99)] / 1e3;
        return answer;
    }

    private static final class Task implements BiConsumer<Object, Throwable> {
        final Request request;
        final int index;
        final long until;
        final Function<Task, CompletableFuture<?>> call;
        final CompletableFuture<Void> ended = new CompletableFuture<>();
        final SplittableRandom random = new SplittableRandom();
        long sent;
        long[] nanos = new long[1 << 8];
        int count;

        Task(Request request, int index, long until, Function<Task, CompletableFuture<?>> call) {
            this.request = request;
            this.index = index;
            this.until = until;
            this.call = call;
        }

        int partition() {
            return request.partitions == 1 ? 500 : random.nextInt(request.partitions);
        }

        byte[] row() {
            return Client.row(partition(), random.nextInt(request.rows_of_partition));
        }

        void send() {
            sent = System.nanoTime();
            call.apply(this).whenComplete(this);
        }

        @Override
        public void accept(Object result, Throwable error) {
            long now = System.nanoTime();
            if (count == nanos.length) {
                nanos = Arrays.copyOf(nanos, 2 * count);
            }
            nanos[count++] = now - sent;
            if (error != null) {
                ended.completeExceptionally(error);
            } else if (now < until) {
                send();
            } else {
                ended.complete(null);
            }
        }
    }

    private static void checkFound(Result result) {
        if (result.isEmpty()) {
            throw new IllegalStateException("a row is missing");
        }
    }

    private static Put put(byte[] row) {
        return new Put(row).addColumn(FAMILY, QUALIFIER, VALUE);
    }

    /** Three digits of the partition, and five of the row. */
    private static byte[] row(int partition, int number) {
        byte[] row = new byte[8];
        for (int i = 7; i >= 3; i--, number /= 10) {
            row[i] = (byte) ('0' + number % 10);
        }
        for (int i = 2; i >= 0; i--, partition /= 10) {
            row[i] = (byte) ('0' + partition % 10);
        }
        return row;
    }
}
