package hbasetxn;

import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.zookeeper.ZKConfig;
import org.apache.hbase.thirdparty.com.google.gson.Gson;
import org.apache.hbase.thirdparty.com.google.gson.GsonBuilder;

/**
 * What HBase's own client reads in files: each argument is an {@code hbase-site.xml}, whose line of stdout is an object of
 * settings, or of an {@code error}.
 */
public final class Configurations {
    private static final Gson JSON = new GsonBuilder().disableHtmlEscaping().create();

    private Configurations() {}

    public static void main(String[] files) {
        PrintWriter answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        // A library that prints must not be taken for an answer.
        System.setOut(System.err);
        for (String file : files) {
            answers.println(JSON.toJson(read(file)));
        }
        answers.flush();
    }

    private static Map<String, String> read(String file) {
        Map<String, String> found = new TreeMap<>();
        try {
            Configuration configuration = HBaseConfiguration.create();
            configuration.addResource(new Path("file://" + file));
            String quorum = ZKConfig.getClientZKQuorumServersString(configuration);
            found.put("quorum", quorum == null ? ZKConfig.getZKQuorumServersString(configuration) : quorum);
            found.put("znode", configuration.get(HConstants.ZOOKEEPER_ZNODE_PARENT));
            for (String key : new String[] {
                "hbase.client.pause", "hbase.client.replicaCallTimeout.scan", "hbase.client.keyvalue.maxsize"
            }) {
                found.put(key, Long.toString(configuration.getLong(key, -1)));
            }
            return found;
        } catch (RuntimeException error) {
            found.clear();
            found.put("error", String.valueOf(error));
            return found;
        }
    }
}
