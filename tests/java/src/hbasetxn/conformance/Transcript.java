package hbasetxn.conformance;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import org.apache.hadoop.hbase.Cell;
import org.apache.hadoop.hbase.CellUtil;
import org.apache.hadoop.hbase.client.CheckAndMutateResult;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.RetriesExhaustedWithDetailsException;
import org.apache.hadoop.hbase.util.Bytes;

/**
 * Writes a line for each call and its answer, in a form in which two clusters can agree: a server's time becomes the
 * number of the call in which it was given, an exception the names of its classes.
 */
final class Transcript {
    interface Call {
        Object run() throws Exception;
    }

    interface Action {
        void run() throws Exception;
    }

    /** Timestamps below are chosen by a call, and the others given by a server. */
    private static final long SERVER_TIME = 1_000_000_000;
    /** Calls are this many milliseconds apart, so that their times differ. */
    private static final long GAP = 3;

    private final PrintWriter out;
    private final String tables;
    private final List<long[]> spans = new ArrayList<>();

    /** {@code tables} begins the names of all tables, and is left out of the lines. */
    Transcript(PrintWriter out, String tables) {
        this.out = out;
        this.tables = tables;
    }

    void call(String what, Call call) throws InterruptedException {
        Thread.sleep(GAP);
        long[] span = {System.currentTimeMillis(), Long.MAX_VALUE};
        spans.add(span);
        Object answer;
        try {
            answer = call.run();
        } catch (InterruptedException error) {
            throw error;
        } catch (Exception error) {
            answer = error;
        }
        span[1] = System.currentTimeMillis();
        String line = spans.size() + " " + what + " -> " + text(answer);
        out.println(line.replace(tables, ""));
        out.flush();
    }

    /** A call that answers nothing. */
    void act(String what, Action action) throws InterruptedException {
        call(what, () -> {
            action.run();
            return "ok";
        });
    }

    private String text(Object answer) {
        if (answer instanceof Result) {
            return cells((Result) answer);
        }
        if (answer instanceof CheckAndMutateResult) {
            CheckAndMutateResult checked = (CheckAndMutateResult) answer;
            return checked.isSuccess() + " " + text(checked.getResult());
        }
        if (answer instanceof Throwable) {
            return classes((Throwable) answer);
        }
        if (answer instanceof byte[]) {
            return Bytes.toStringBinary((byte[]) answer);
        }
        if (answer instanceof boolean[]) {
            return Arrays.toString((boolean[]) answer);
        }
        if (answer instanceof Object[]) {
            return text(Arrays.asList((Object[]) answer));
        }
        if (answer instanceof Iterable) {
            List<String> parts = new ArrayList<>();
            ((Iterable<?>) answer).forEach(part -> parts.add(text(part)));
            return parts.toString();
        }
        return String.valueOf(answer);
    }

    private String cells(Result result) {
        if (result.getExists() != null) {
            return "exists " + result.getExists();
        }
        StringBuilder text = new StringBuilder("{");
        if (!result.isEmpty()) {
            text.append(Bytes.toStringBinary(result.getRow()));
            for (Cell cell : result.rawCells()) {
                text.append(' ').append(cell(cell));
            }
        }
        return text.append('}').toString();
    }

    private String cell(Cell cell) {
        return Bytes.toString(CellUtil.cloneFamily(cell)) + ":" + Bytes.toStringBinary(CellUtil.cloneQualifier(cell))
                + "/" + time(cell.getTimestamp()) + "/" + cell.getType()
                + "=" + Bytes.toStringBinary(CellUtil.cloneValue(cell));
    }

    private String time(long timestamp) {
        if (timestamp < SERVER_TIME) {
            return Long.toString(timestamp);
        }
        for (int call = spans.size(); call > 0; call--) {
            long[] span = spans.get(call - 1);
            if (span[0] <= timestamp && timestamp <= span[1]) {
                return "now" + call;
            }
        }
        return "unknown time";
    }

    /** The classes of an exception and its causes. Those of a batch have no order. */
    private static String classes(Throwable error) {
        if (error instanceof RetriesExhaustedWithDetailsException) {
            TreeSet<String> causes = new TreeSet<>();
            ((RetriesExhaustedWithDetailsException) error).getCauses().forEach(cause -> causes.add(classes(cause)));
            return error.getClass().getSimpleName() + causes;
        }
        StringBuilder text = new StringBuilder(error.getClass().getSimpleName());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            text.append(" < ").append(cause.getClass().getSimpleName());
        }
        return text.toString();
    }
}
