package hbasetxn;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.HConstants;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.Get;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.protobuf.generated.AuthenticationProtos.AuthenticationService;
import org.apache.hadoop.hbase.protobuf.generated.AuthenticationProtos.WhoAmIRequest;
import org.apache.hadoop.hbase.protobuf.generated.AuthenticationProtos.WhoAmIResponse;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hbase.thirdparty.com.google.common.base.Throwables;
import org.apache.hbase.thirdparty.com.google.gson.Gson;

/**
 * Connects as different users, to compare which of them servers accept.
 *
 * <p>A request is a line of stdin, an array of JSON: an {@code hbase-site.xml}, and a token file or "". Its answer is a line
 * of stdout: an array with the user and the authentication as the server knows them, or "" and the stack trace.
 */
public final class Login {
    private static final Gson JSON = new Gson();

    private Login() {}

    public static void main(String[] arguments) throws IOException {
        PrintWriter answers = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        // A library that prints must not be taken for an answer.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            Request request = new Request(line);
            String[] answer;
            try {
                answer = new String[] {login(request.text(), request.text())};
            } catch (Exception error) {
                answer = new String[] {"", Throwables.getStackTraceAsString(error)};
            }
            answers.println(JSON.toJson(answer));
            answers.flush();
        }
        // Threads of the client may be left over.
        System.exit(0);
    }

    private static String login(String site, String tokenFile) throws Exception {
        Configuration configuration = HBaseConfiguration.create();
        configuration.addResource(new Path(site));
        // Refusals are reported at once.
        configuration.setInt("hbase.client.retries.number", 0);
        configuration.setInt("hbase.security.relogin.maxretries", 0);
        String authentication = configuration.get("hbase.security.authentication", "simple");
        configuration.set("hadoop.security.authentication", authentication);
        UserGroupInformation.reset();
        UserGroupInformation.setConfiguration(configuration);
        UserGroupInformation user;
        String keytab = configuration.get("hbase.client.keytab.file");
        if (!tokenFile.isEmpty()) {
            user = UserGroupInformation.createRemoteUser("holder");
            user.addCredentials(Credentials.readTokenStorageFile(new File(tokenFile), configuration));
        } else if (keytab != null && authentication.equals("kerberos")) {
            String principal = configuration.get("hbase.client.keytab.principal");
            user = UserGroupInformation.loginUserFromKeytabAndReturnUGI(principal, keytab);
        } else {
            user = UserGroupInformation.getLoginUser();
        }
        // It logs in by itself otherwise.
        configuration.unset("hbase.client.keytab.file");
        return user.doAs((PrivilegedExceptionAction<String>) () -> whoAmI(configuration));
    }

    private static String whoAmI(Configuration configuration) throws Exception {
        try (Connection connection = ConnectionFactory.createConnection(configuration);
                Table table = connection.getTable(TableName.META_TABLE_NAME)) {
            table.exists(new Get(Bytes.toBytes("a")));
            if (!UserGroupInformation.isSecurityEnabled()) {
                return "SIMPLE";
            }
            AuthenticationService.BlockingInterface service = AuthenticationService.newBlockingStub(
                    table.coprocessorService(HConstants.EMPTY_START_ROW));
            WhoAmIResponse known = service.whoAmI(null, WhoAmIRequest.getDefaultInstance());
            return known.getUsername() + " " + known.getAuthMethod();
        }
    }
}
