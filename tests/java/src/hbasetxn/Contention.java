package hbasetxn;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.Table;

/** Threads that take locks in turn, and note when each was inside. */
final class Contention {
    // The wall clock can be set back while threads are inside; this one only runs on from where it stood.
    private static final long BEGAN_NANOS = System.nanoTime();
    private static final long BEGAN_MICROS =
            Duration.between(Instant.EPOCH, Instant.now()).toNanos() / 1000;

    private final Connection connection;
    private final TableName table;
    private final String level;
    private final String farm;
    private final String client;
    private final String[] ids;
    private final long ttlSeconds;
    private final long insideMillis;
    private final long pauseMillis;
    private final long untilNanos;
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
        this.untilNanos = System.nanoTime() + request.number() * 1_000_000;
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
        try (Table locks = connection.getTable(table)) {
            while (System.nanoTime() < untilNanos) {
                String id = ids[ThreadLocalRandom.current().nextInt(ids.length)];
                byte[] row = Keys.lock(level, farm, client, id);
                if (!Locks.acquire(locks, row, ttlSeconds, 0)) {
                    Thread.sleep(pauseMillis);
                    continue;
                }
                long enter = nowMicros();
                Thread.sleep(insideMillis);
                long leave = nowMicros();
                Locks.release(locks, row);
                cycles.accept(new Object[] {id, thread, enter, leave});
                count++;
            }
        }
        return count;
    }

    private static long nowMicros() {
        return BEGAN_MICROS + (System.nanoTime() - BEGAN_NANOS) / 1000;
    }
}
