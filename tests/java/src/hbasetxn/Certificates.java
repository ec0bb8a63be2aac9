package hbasetxn;

import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.PKIXBuilderParameters;
import java.security.cert.X509CertSelector;
import javax.net.ssl.CertPathTrustManagerParameters;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * TLS servers, and whether Java's client accepts their certificates.
 *
 * <p>Each argument is a folder with the key of a server, {@code server.p12}, and the certificates that clients trust,
 * {@code trust.pem}. For each of them a line of stdout has the port of the server, which runs until stdin ends, and the reason of
 * the client's refusal, or nothing. Trust is built as by HBase's {@code X509Util}.
 */
public final class Certificates {
    private static final char[] PASSWORD = "changeit".toCharArray();

    private Certificates() {}

    public static void main(String[] folders) throws Exception {
        for (String folder : folders) {
            int port = serve(Path.of(folder, "server.p12"));
            System.out.println(port + " " + refusal(Path.of(folder, "trust.pem"), port));
        }
        System.out.flush();
        while (System.in.read() >= 0) {
            // Other clients connect.
        }
        System.exit(0);
    }

    private static int serve(Path key) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream file = new FileInputStream(key.toFile())) {
            store.load(file, PASSWORD);
        }
        KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
        keys.init(store, PASSWORD);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        SSLServerSocket listener = (SSLServerSocket)
                context.getServerSocketFactory().createServerSocket(0, 50, InetAddress.getLoopbackAddress());
        Thread server = new Thread(() -> {
            while (true) {
                try (SSLSocket client = (SSLSocket) listener.accept()) {
                    client.startHandshake();
                    // No server of HBase answers like this.
                    client.getOutputStream().write("no HBase, no HBase".getBytes());
                } catch (IOException refused) {
                    // The client hung up.
                }
            }
        });
        server.setDaemon(true);
        server.start();
        return listener.getLocalPort();
    }

    private static String refusal(Path trust, int port) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream file = new FileInputStream(trust.toFile())) {
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(file)) {
                store.setCertificateEntry("trusted-" + store.size(), certificate);
            }
        }
        PKIXBuilderParameters parameters = new PKIXBuilderParameters(store, new X509CertSelector());
        parameters.setRevocationEnabled(false);
        TrustManagerFactory trusted = TrustManagerFactory.getInstance("PKIX");
        trusted.init(new CertPathTrustManagerParameters(parameters));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trusted.getTrustManagers(), null);
        try (SSLSocket socket = (SSLSocket)
                context.getSocketFactory().createSocket(InetAddress.getLoopbackAddress(), port)) {
            socket.startHandshake();
            return socket.getInputStream().read() < 0 ? "the server hung up" : "";
        } catch (IOException refusal) {
            return String.valueOf(refusal.getMessage());
        }
    }
}
