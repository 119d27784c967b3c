import java.io.File;
import java.util.HashSet;
import java.util.Set;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/** A KDC of one realm on loopback. It ends with its input. */
public final class Kdc {
    /** Arguments: folder, realm, port; then keytab=principal, in the order within a keytab. */
    public static void main(String[] arguments) {
        int code = 0;
        try {
            serve(arguments);
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        System.exit(code);  // it has threads that would go on
    }

    private static void serve(String[] arguments) throws Exception {
        SimpleKdcServer kdc = new SimpleKdcServer();
        kdc.setWorkDir(new File(arguments[0]));
        kdc.setKdcHost("127.0.0.1");
        kdc.setKdcRealm(arguments[1]);
        kdc.setKdcTcpPort(Integer.parseInt(arguments[2]));
        kdc.setAllowUdp(false);
        kdc.getKdcConfig().setString(
            KdcConfigKey.ENCRYPTION_TYPES, "aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96");
        kdc.getKdcConfig().setLong(KdcConfigKey.MINIMUM_TICKET_LIFETIME, 1L);
        kdc.init();
        kdc.start();
        Set<String> known = new HashSet<>();
        for (int i = 3; i < arguments.length; i++) {
            String[] parts = arguments[i].split("=", 2);
            if (known.add(parts[1])) {
                kdc.createPrincipal(parts[1]);
            }
            kdc.exportPrincipal(parts[1], new File(arguments[0], parts[0]));
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
