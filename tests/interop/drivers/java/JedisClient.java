import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.util.SafeEncoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Properties;

/** Jedis as a client of rlockd: `JedisClient PORT`. */
public final class JedisClient implements Lines.Verbs {
    private final int port;
    private final Jedis jedis;

    private JedisClient(int port) {
        this.port = port;
        this.jedis = new Jedis(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().build());
    }

    private static Object plain(Object reply) {
        if (reply instanceof byte[]) {
            return new String((byte[]) reply, StandardCharsets.UTF_8);
        }
        return reply;
    }

    private static ProtocolCommand command(String word) {
        return () -> SafeEncoder.encode(word);
    }

    private static String version() throws Exception {
        Properties p = new Properties();
        p.load(Jedis.class.getResourceAsStream("/META-INF/maven/redis.clients/jedis/pom.properties"));
        return p.getProperty("version");
    }

    private Object subscribe(String channel) {
        Jedis own = new Jedis("127.0.0.1", port, 0);
        new Thread(() -> own.subscribe(new JedisPubSub() {
            @Override
            public void onSubscribe(String c, int n) {
                Lines.say("subscribed " + c);
            }

            @Override
            public void onMessage(String c, String message) {
                Lines.say("event " + c + " " + message);
            }
        }, channel)).start();
        return 1;
    }

    @Override
    public Object run(String thread, String verb, String[] w) throws Exception {
        switch (verb) {
        case "version": return version();
        case "subscribe": return subscribe(w[0]);
        case "do": return plain(jedis.sendCommand(command(w[0]), Arrays.copyOfRange(w, 1, w.length)));
        case "long": return plain(jedis.sendBlockingCommand(command(w[0]), Arrays.copyOfRange(w, 1, w.length)));
        default: throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(new JedisClient(Integer.parseInt(args[0])));
    }
}
