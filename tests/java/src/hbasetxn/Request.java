package hbasetxn;

import org.apache.hadoop.hbase.TableName;
import org.apache.hbase.thirdparty.com.google.gson.JsonArray;
import org.apache.hbase.thirdparty.com.google.gson.JsonElement;
import org.apache.hbase.thirdparty.com.google.gson.JsonParser;

/** A line of stdin, part by part: an array of JSON, the command first. */
final class Request {
    private final JsonArray parts;
    private int next;

    Request(String line) {
        parts = JsonParser.parseString(line).getAsJsonArray();
    }

    String text() {
        return part().getAsString();
    }

    long number() {
        return part().getAsLong();
    }

    TableName table() {
        return TableName.valueOf(text());
    }

    String[] texts() {
        JsonArray array = part().getAsJsonArray();
        String[] texts = new String[array.size()];
        for (int at = 0; at < texts.length; at++) {
            texts[at] = array.get(at).getAsString();
        }
        return texts;
    }

    private JsonElement part() {
        if (next == parts.size()) {
            throw new IllegalArgumentException("the command takes more than " + parts);
        }
        return parts.get(next++);
    }
}
