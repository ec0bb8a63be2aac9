package hbasetxn;

import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Table;

/** Clients that acquire locks repeatedly, each a thread with its own connection, and record their holds. */
final class Contention {
    // The wall clock can be set back during a hold; this one runs on. The thread may be interrupted between the two
    // reads, which makes their difference smaller.
    private static final long CLOCK_OFFSET_MICROS = LongStream.range(0, 100)
            .map(read -> ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now()) - System.nanoTime() / 1000)
            .max()
            .getAsLong();

    private final Connection connection;
    private final TableName table;
    private final String level;
    private final String farm;
    private final String client;
    private final String[] ids;
    private final long ttlSeconds;
    private final long insideMillis;
    private final long pauseMillis;
    private final long lastingNanos;
    private final Consumer<Object[]> cycles;

    private Contention(Connection connection, Request request, Consumer<Object[]> cycles) {
        this.connection = connection;
        this.cycles = cycles;
        this.table = request.table();
        this.level = request.text();
        this.farm = request.text();
        this.client = request.text();
        this.ids = request.texts();
        this.ttlSeconds = request.number();
        this.insideMillis = request.number();
        this.pauseMillis = request.number();
        this.lastingNanos = request.number() * 1_000_000;
    }

    /** Runs the threads for their time, hands each cycle on as it ends, and tells how many there were. */
    static long run(Connection connection, Request request, Consumer<Object[]> cycles) throws Exception {
        int threads = Math.toIntExact(request.number());
        Contention contention = new Contention(connection, request, cycles);
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Long>> ended = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                int number = thread;
                ended.add(pool.submit(() -> contention.cycles(number)));
            }
            long total = 0;
            for (Future<Long> one : ended) {
                total += one.get();
            }
            return total;
        } catch (ExecutionException error) {
            if (error.getCause() instanceof Exception) {
                throw (Exception) error.getCause();
            }
            throw error;
        } finally {
            // No thread may hand on a cycle behind the answer.
            pool.shutdownNow();
            pool.awaitTermination(1, TimeUnit.MINUTES);
        }
    }

    private long cycles(int thread) throws Exception {
        long count = 0;
        try (Connection own = ConnectionFactory.createConnection(connection.getConfiguration());
                Table locks = own.getTable(table)) {
            long untilNanos = System.nanoTime() + lastingNanos;
            long attempts = 0;
            while (System.nanoTime() < untilNanos) {
                String id = ids[ThreadLocalRandom.current().nextInt(ids.length)];
                byte[] row = Keys.lock(level, farm, client, id);
                attempts++;
                long stamp = System.currentTimeMillis();
                if (Locks.acquire(locks, row, ttlSeconds, stamp)) {
                    long enter = nowMicros();
                    Thread.sleep(insideMillis);
                    long leave = nowMicros();
                    Locks.release(locks, row);
                    cycles.accept(new Object[] {id, thread, stamp, enter, leave, nowMicros(), attempts});
                    count++;
                    attempts = 0;
                }
                Thread.sleep(pauseMillis);
            }
        }
        return count;
    }

    private static long nowMicros() {
        return CLOCK_OFFSET_MICROS + System.nanoTime() / 1000;
    }
}
