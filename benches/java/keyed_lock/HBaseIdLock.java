import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.LongAdder;
import org.apache.hadoop.hbase.util.IdLock;

/**
 * Locks and unlocks random ids with HBase's IdLock. Reads lines "THREADS MILLIS IDS" and answers each with "COUNT NANOS":
 * how often that was done in what time.
 */
public class HBaseIdLock {
  private static volatile boolean stop;

  public static void main(String[] args) throws Exception {
    Scanner requests = new Scanner(System.in);
    while (requests.hasNextInt()) {
      System.out.println(measure(requests.nextInt(), requests.nextInt(), requests.nextInt()));
    }
  }

  private static String measure(int threads, int millis, int ids) throws Exception {
    IdLock lock = new IdLock();
    LongAdder count = new LongAdder();
    stop = false;
    List<Thread> running = new ArrayList<>();
    long began = System.nanoTime();
    for (int i = 0; i < threads; i++) {
      Thread thread = new Thread(() -> count.add(run(lock, ids)));
      thread.start();
      running.add(thread);
    }
    Thread.sleep(millis);
    stop = true;
    for (Thread thread : running) {
      thread.join();
    }
    return count.sum() + " " + (System.nanoTime() - began);
  }

  private static long run(IdLock lock, int ids) {
    ThreadLocalRandom random = ThreadLocalRandom.current();
    long count = 0;
    try {
      while (!stop) {
        for (int i = 0; i < 64; i++) {
          IdLock.Entry entry = lock.getLockEntry(random.nextInt(ids));
          lock.releaseLockEntry(entry);
        }
        count += 64;
      }
    } catch (java.io.IOException interrupted) {
      throw new IllegalStateException(interrupted);
    }
    return count;
  }
}
