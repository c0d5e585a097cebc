import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** Lettuce as a client of rlockd: `LettuceClient PORT`. */
public final class LettuceClient implements Lines.Verbs {
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;

    private LettuceClient(int port) {
        this.client = RedisClient.create(RedisURI.create("127.0.0.1", port));
        this.connection = client.connect();
    }

    private static ProtocolKeyword keyword(String word) {
        return new ProtocolKeyword() {
            @Override
            public byte[] getBytes() {
                return word.getBytes(StandardCharsets.UTF_8);
            }

            @Override
            public String toString() {
                return word;
            }
        };
    }

    private static Object send(StatefulRedisConnection<String, String> c, String[] w) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (int i = 1; i < w.length; i++) {
            args.add(w[i]);
        }
        CommandOutput<String, String, List<Object>> output = new NestedMultiOutput<>(StringCodec.UTF8);
        List<Object> reply = c.sync().dispatch(keyword(w[0]), output, args);
        return reply == null || reply.isEmpty() ? null : reply.get(0);
    }

    /** A connection of its own, with a timeout of its own: the documented way to wait long. */
    private Object patient(String[] w) {
        try (StatefulRedisConnection<String, String> own = client.connect()) {
            own.setTimeout(Duration.ofMinutes(5));
            return send(own, w);
        }
    }

    private Object subscribe(String channel) {
        StatefulRedisPubSubConnection<String, String> own = client.connectPubSub();
        own.addListener(new RedisPubSubAdapter<String, String>() {
            @Override
            public void message(String c, String message) {
                Lines.say("event " + c + " " + message);
            }
        });
        own.sync().subscribe(channel);
        Lines.say("subscribed " + channel);
        return 1;
    }

    @Override
    public Object run(String thread, String verb, String[] w) throws Exception {
        switch (verb) {
        case "version": return RedisClient.class.getPackage().getImplementationVersion().split("/")[0];
        case "subscribe": return subscribe(w[0]);
        case "do": return send(connection, w);
        case "long": return patient(w);
        default: throw new IllegalArgumentException(verb);
        }
    }

    public static void main(String[] args) throws Exception {
        Lines.serve(new LettuceClient(Integer.parseInt(args[0])));
    }
}
